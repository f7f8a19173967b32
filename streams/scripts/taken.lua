-- Hints that were read go; the stream lives on for another while, since it is in use.
-- KEYS  1 work stream
-- ARGV  1 ttl_ms  2… entry ids
-- reply 1
redis.call('XDEL', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
