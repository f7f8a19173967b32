-- When somebody must look at a response again.
-- KEYS  1 due set
-- ARGV  1 rid  2 at (ms, server time) or after (ms)  3 'at' | 'after'  4 ttl_ms
-- reply 1
local at = ARGV[2]
if ARGV[3] == 'after' then
  local time = redis.call('TIME')
  at = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
end
redis.call('ZADD', KEYS[1], at, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
