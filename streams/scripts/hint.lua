-- "This response wants work of this kind": a hint, which may be lost or repeated.
-- KEYS  1 work stream
-- ARGV  1 rid  2 ttl_ms  3 cap
-- reply 1
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'r', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
