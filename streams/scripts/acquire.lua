-- A translate worker takes a response, and learns what is already committed.
-- KEYS  1 state  2 input log
-- ARGV  1 token  2 lease_ms  3 entries to bring along while nothing is committed yet
-- reply {fence, cursor, seq, digest, dup, entries}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1], 'done', 'fence', 'epoch', 'lease', 'cur', 'seq', 'digest')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
local dup = s[2] == s[3] .. ':' .. ARGV[1]
if not dup then
  if s[1] == '1' then return redis.error_reply('REFUSED DONE') end
  if now < tonumber(s[4]) then return redis.error_reply('REFUSED LEASED') end
  -- A write that needs no memory comes first: a script that has written is let finish by a server that is full.
  redis.call('HDEL', KEYS[1], '')
  local epoch = s[3] + 1
  s[2] = epoch .. ':' .. ARGV[1]
  redis.call('HSET', KEYS[1], 'fence', s[2], 'epoch', epoch, 'lease', now + ARGV[2])
end
local entries = {}
if s[5] == '0' then entries = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[3]) end
return {s[2], tonumber(s[5]), tonumber(s[6]), s[7], dup and 1 or 0, entries}
