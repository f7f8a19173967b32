-- A tool worker gives a job back that it did not run to its end, so that another one may begin it at once.
-- KEYS  1 state  2 jobs
-- ARGV  1 fence
-- reply 1
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('REFUSED MISSING') end
local key, token = string.match(ARGV[1], '^(.*):([^:]*)$')
local j = redis.call('HMGET', KEYS[2], 'done:' .. (key or ''), 'claim:' .. (key or ''))
if j[1] or not j[2] or string.match(j[2], '^([^:]*):') ~= token then return redis.error_reply('REFUSED FENCED') end
redis.call('HDEL', KEYS[2], 'claim:' .. key)
return 1
