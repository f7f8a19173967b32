-- A translate worker lives on through silence, and hears how long the input log is, and how far it has come.
-- KEYS  1 state
-- ARGV  1 fence  2 lease_ms
-- reply {last entry, cancelled, done, cursor}
local s = redis.call('HMGET', KEYS[1], 'done', 'fence', 'in', 'cancel', 'cur')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
if s[2] ~= ARGV[1] then return redis.error_reply('REFUSED FENCED') end
if s[1] == '0' then
  -- A write that needs no memory comes first: a script that has written is let finish by a server that is full.
  redis.call('HDEL', KEYS[1], '')
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'lease', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
end
return {tonumber(s[3]), tonumber(s[4]), tonumber(s[1]), tonumber(s[5])}
