-- A response is about to be created: it takes a place among those that are open, and is entered into the due set.
-- KEYS  1 due set  2 places: rid by the time they lapse  3 tenant by rid  4 places taken by tenant
-- ARGV  1 rid  2 look at it after (ms)  3 ttl_ms  4 tenant  5 places in all or 0  6 places of the tenant or 0  7 place_ms
-- reply 1
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A place that lapsed had no end that anybody could see; giving it back is right whatever follows.
for _, rid in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
  local tenant = redis.call('HGET', KEYS[3], rid)
  redis.call('ZREM', KEYS[2], rid)
  redis.call('HDEL', KEYS[3], rid)
  if tenant and redis.call('HINCRBY', KEYS[4], tenant, -1) <= 0 then redis.call('HDEL', KEYS[4], tenant) end
end
-- The three go together, so that no count outlives its places.
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('DEL', KEYS[3], KEYS[4]) end
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  local all, own = tonumber(ARGV[5]), tonumber(ARGV[6])
  if own > 0 and tonumber(redis.call('HGET', KEYS[4], ARGV[4]) or 0) >= own then
    return redis.error_reply('REFUSED TENANT_FULL')
  end
  if all > 0 and redis.call('ZCARD', KEYS[2]) >= all then return redis.error_reply('REFUSED FULL') end
  redis.call('HSET', KEYS[3], ARGV[1], ARGV[4])
  redis.call('HINCRBY', KEYS[4], ARGV[4], 1)
end
redis.call('ZADD', KEYS[2], now + ARGV[7], ARGV[1])
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[3]) end
return 1
