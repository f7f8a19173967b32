-- The last frame of an output log; where its logs are packed, in the same step the number of that frame.
-- KEYS  1 state  2 output log
-- reply {sealed, seq, entries}; no entries where nothing is committed, or the log has lost it
local s = redis.call('HMGET', KEYS[1], 'sealed', 'seq')
if not s[2] then return redis.error_reply('REFUSED MISSING') end
if s[1] then return {1, tonumber(s[2]), {}} end
return {0, -1, redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)}
