-- Both logs of a finished response become one packed value, in one step: a reader finds either them or it.
-- KEYS  1 state  2 input log  3 output log  4 packed logs
-- ARGV  1 packed logs  2 entries in them  3 frames in them
-- reply dup
local s = redis.call('HMGET', KEYS[1], 'done', 'store', 'sealed', 'in', 'seq', 'expires')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
if s[3] then return 1 end
if s[1] ~= '1' then return redis.error_reply('REFUSED OPEN') end
if s[2] ~= '1' then return redis.error_reply('REFUSED UNSTORED') end
local entries, frames = tonumber(ARGV[2]), tonumber(ARGV[3])
if tonumber(s[4]) ~= entries or s[5] + 1 ~= frames
  or redis.call('XLEN', KEYS[2]) ~= entries or redis.call('XLEN', KEYS[3]) ~= frames then
  return redis.error_reply('REFUSED CHANGED')
end

-- First of all what needs memory: where there is none, Redis refuses here, and the logs live on.
redis.call('SET', KEYS[4], ARGV[1])
redis.call('PEXPIREAT', KEYS[4], s[6])
redis.call('HSET', KEYS[1], 'sealed', 1)
redis.call('UNLINK', KEYS[2], KEYS[3])
return 0
