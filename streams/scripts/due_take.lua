-- The responses that are due. Each is put off by hold_ms, so that a second sweeper does not take it as well, and a
-- sweeper that dies with it in hand has lost nothing.
-- KEYS  1 due set
-- ARGV  1 now (ms) or '' for the server's  2 limit  3 hold_ms  4 ttl_ms
-- reply {now, when the next of the others is due (0: there are none), rid, rid, …}
local time = redis.call('TIME')
local server = time[1] * 1000 + math.floor(time[2] / 1000)
local now = ARGV[1] == '' and server or tonumber(ARGV[1])
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])
-- A write that needs no memory comes first: a script that has written is let finish by a server that is full.
redis.call('ZREM', KEYS[1], '')
for _, rid in ipairs(due) do redis.call('ZADD', KEYS[1], now + ARGV[3], rid) end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
local next = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
table.insert(due, 1, next and math.ceil(next) or 0)
table.insert(due, 1, server)
return due
