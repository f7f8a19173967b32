-- A response that ended elsewhere: its state and its packed logs, in one step.
-- KEYS  1 state  2 packed logs
-- ARGV  1 packed logs  2 retain_ms  3 digest of its frames  4… name and value of each field of the state
-- reply {expires, dup}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1], 'done', 'sealed', 'digest', 'expires')
if s[1] then
  if s[1] == '1' and s[2] and s[3] == ARGV[3] then return {tonumber(s[4]), 1} end
  return redis.error_reply('REFUSED EXISTS')
end

-- First of all what needs memory: where there is none, Redis refuses here, and nothing was begun.
local expires = now + ARGV[2]
redis.call('SET', KEYS[2], ARGV[1])
redis.call('PEXPIREAT', KEYS[2], expires)
redis.call('HSET', KEYS[1], 'digest', ARGV[3], 'expires', expires, 'done', 1, 'sealed', 1)
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIREAT', KEYS[1], expires)
return {expires, 0}
