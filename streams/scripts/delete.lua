-- A response goes, whole; who still writes for it finds no state and stops.
-- KEYS  1 state  2 input log  3 output log  4 secrets  5 jobs  6 packed logs
-- ARGV  1 bell_in  2 bell_out
-- reply 1
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('REFUSED MISSING') end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
redis.call('PUBLISH', ARGV[1], 'deleted')
redis.call('PUBLISH', ARGV[2], 'deleted')
return 1
