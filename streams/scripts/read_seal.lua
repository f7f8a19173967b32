-- A part of the packed logs.
-- KEYS  1 state  2 packed logs
-- ARGV  1 first byte  2 last byte
-- reply bytes; empty where the response is there and its packed logs are not
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('REFUSED MISSING') end
return redis.call('GETRANGE', KEYS[2], ARGV[1], ARGV[2])
