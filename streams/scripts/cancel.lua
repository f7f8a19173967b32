-- A cancel is an entry of the input log like any other: the fold decides its place. Written once.
-- KEYS  1 state  2 input log
-- ARGV  1 data of the entry  2 bell  3 who no longer reads it, if that is why: nothing is cancelled while others do; or ''
-- reply {status, done, entry or 0, t, dup}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1], 'done', 'status', 'cancel', 'in', 'in_bytes', 'readers')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
if s[1] == '1' or s[3] == '1' then return {s[2], tonumber(s[1]), 0, now, tonumber(s[3])} end

-- A write that needs no memory comes first: a script that has written is let finish by a server that is full.
redis.call('HDEL', KEYS[1], '')
if ARGV[3] ~= '' then
  local others, last = {}, 0
  for who, till in string.gmatch(s[6] or '', '([^:,]+):(%d+)') do
    if who ~= ARGV[3] and tonumber(till) > now then
      others[#others + 1] = who .. ':' .. till
      last = math.max(last, tonumber(till))
    end
  end
  if last > 0 then
    redis.call('HSET', KEYS[1], 'reader', last, 'readers', table.concat(others, ','))
    return {s[2], 0, 0, now, 0}
  end
end
local n = s[4] + 1
redis.call('XADD', KEYS[2], n .. '-1', 'k', 'cancel', 't', now, 'd', ARGV[1])
redis.call('HSET', KEYS[1], 'cancel', 1, 'in', n, 'in_bytes', s[5] + #ARGV[1])
redis.call('PUBLISH', ARGV[2], n)
return {s[2], 0, n, now, 0}
