-- The consumer group of a work stream, made where it is not there; from 0, so that earlier hints are read.
-- KEYS  1 work stream
-- ARGV  1 group  2 ttl_ms
-- reply 1
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
-- (tostring: fakeredis hands out errors that are no Lua strings.)
local problem = type(made) == 'table' and made['err'] and tostring(made['err'])
if problem and not string.find(problem, 'BUSYGROUP', 1, true) then return made end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
