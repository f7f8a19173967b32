-- A tool worker is alive, and hears whether its call is still wanted.
-- KEYS  1 state  2 jobs
-- ARGV  1 fence  2 lease_ms
-- reply {cancelled, done}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1], 'done', 'cancel')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
if s[1] == '1' then return {tonumber(s[2]), 1} end
local key, token = string.match(ARGV[1], '^(.*):([^:]*)$')
local j = redis.call('HMGET', KEYS[2], 'done:' .. (key or ''), 'claim:' .. (key or ''))
local holder, tries = string.match(j[2] or '', '^([^:]*):%d+:(%d+)$')
if j[1] or not holder or holder ~= token then return redis.error_reply('REFUSED FENCED') end
-- A write that needs no memory comes first: a script that has written is let finish by a server that is full.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[2], 'claim:' .. key, token .. ':' .. (now + ARGV[2]) .. ':' .. tries)
return {tonumber(s[2]), 0}
