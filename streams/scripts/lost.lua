-- The sweeper ends an attempt whose process died (or whose response is past its deadline), and fences it off.
-- KEYS  1 state  2 input log
-- ARGV  1 token  2 data of the round_end  3 bell
-- reply {entry, t, dup}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1], 'done', 'rstate', 'ifence', 'ilease', 'deadline', 'in', 'in_bytes', 'round',
  'attempt', 'at', 'an')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
local fence = 'lost:' .. ARGV[1]
if s[3] == fence then return {tonumber(s[11]), tonumber(s[10]), 1} end
if s[1] == '1' then return redis.error_reply('REFUSED DONE') end
local late = now >= tonumber(s[5])
if s[2] ~= 'running' and not (late and s[2] == 'open') then return redis.error_reply('REFUSED STALE') end
if not late and now < tonumber(s[4]) then return redis.error_reply('REFUSED LEASED') end

-- A write that needs no memory comes first: a script that has written is let finish by a server that is full.
redis.call('HDEL', KEYS[1], '')
local n = s[6] + 1
redis.call('XADD', KEYS[2], n .. '-1', 'k', 'round_end', 't', now, 'd', ARGV[2], 'r', s[8], 'a', s[9])
redis.call('HSET', KEYS[1], 'rstate', 'lost', 'ifence', fence, 'ilease', 0, 'in', n, 'in_bytes', s[7] + #ARGV[2],
  'an', n, 'at', now)
redis.call('PUBLISH', ARGV[3], n)
return {n, now, 0}
