-- Somebody still reads an unstored response. While it runs that is a lease; once it has ended it puts off the expiry.
-- KEYS  1 state  2 input log  3 output log
-- ARGV  1 lease_ms  2 grace_ms  3 who reads: a word without ':' and ','
-- reply {done, expires}
local s = redis.call('HMGET', KEYS[1], 'done', 'store', 'expires', 'readers')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
local expires = tonumber(s[3])
if s[2] == '0' then
  -- A write that needs no memory comes first: a script that has written is let finish by a server that is full.
  redis.call('HDEL', KEYS[1], '')
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local readers = {ARGV[3] .. ':' .. now + ARGV[1]}
  for who, till in string.gmatch(s[4] or '', '([^:,]+):(%d+)') do
    if who ~= ARGV[3] and tonumber(till) > now then readers[#readers + 1] = who .. ':' .. till end
  end
  redis.call('HSET', KEYS[1], 'reader', now + ARGV[1], 'readers', table.concat(readers, ','))
  if s[1] == '1' and now + ARGV[2] > expires then
    expires = now + ARGV[2]
    redis.call('HSET', KEYS[1], 'expires', expires)
    for i = 1, 3 do redis.call('PEXPIREAT', KEYS[i], expires) end
  end
end
return {tonumber(s[1]), expires}
