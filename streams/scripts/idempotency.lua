-- One key of a client's stands for one response: whoever comes first says which.
-- KEYS  1 the key's entry
-- ARGV  1 rid  2 digest of the body  3 ttl_ms  4 a rid in whose place this one may come, or empty
-- reply {rid, digest}, as they stand now
local old = redis.call('GET', KEYS[1])
if old then
  local rid, digest = string.match(old, '^(%S+) (%S+)$')
  if rid ~= ARGV[4] then return {rid, digest} end
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
return {ARGV[1], ARGV[2]}
