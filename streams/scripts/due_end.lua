-- A response has ended, or is gone: it gives its place back, and is looked at once more or never again.
-- KEYS  1 due set  2 places  3 tenant by rid  4 places taken by tenant
-- ARGV  1 rid  2 at (ms, server time), after (ms)  3 'at' | 'after' | 'never'  4 ttl_ms
-- reply 1
if redis.call('ZREM', KEYS[2], ARGV[1]) == 1 then
  local tenant = redis.call('HGET', KEYS[3], ARGV[1])
  redis.call('HDEL', KEYS[3], ARGV[1])
  if tenant and redis.call('HINCRBY', KEYS[4], tenant, -1) <= 0 then redis.call('HDEL', KEYS[4], tenant) end
end
if ARGV[3] == 'never' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 1
end
local at = ARGV[2]
if ARGV[3] == 'after' then
  local time = redis.call('TIME')
  at = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
end
redis.call('ZADD', KEYS[1], at, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
