-- A translate worker lets go, so that a successor need not wait for the lease to run out.
-- The fence stays: a repeat of this call, or of the last commit, is still recognised.
-- KEYS  1 state
-- ARGV  1 fence
-- reply 1
local s = redis.call('HMGET', KEYS[1], 'done', 'fence')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
if s[2] ~= ARGV[1] then return redis.error_reply('REFUSED FENCED') end
-- A write that needs no memory comes first: a script that has written is let finish by a server that is full.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'lease', 0)
return 1
