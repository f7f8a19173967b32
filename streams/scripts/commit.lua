-- The one step in which a response moves on: frames, cursor, digest, lease, the next round and the end, together.
-- KEYS  1 state  2 input log  3 output log; with jobs and at the end also  4 secrets  5 jobs
-- ARGV  1 fence  2 expected cursor  3 new cursor  4 first sequence number  5 digest  6 lease_ms  7 status or ''
--       8 terminal  9 retain_ms  10 max_out_bytes  11 reopen  12 number of the next round or 0  13 its body
--       14 bell_in  15 bell_out  16 number of jobs  17… key of a job, its data, …, frames
-- reply {seq, t, entry of the next round or 0, dup}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1],
  'done', 'fence', 'cur', 'seq', 'digest', 'out_bytes', 'expires', 'in', 'in_bytes', 'round', 'rstate', 'rn', 'rt')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
local first, args, terminal = tonumber(ARGV[4]), #ARGV, ARGV[8] == '1'
local head = 16 + 2 * ARGV[16]
local count, seq = args - head, tonumber(s[4])
local last = first + count - 1

-- A repeat has left exactly its own cursor and last number behind. (Nothing is told apart from a repeat of nothing.)
if s[2] == ARGV[1] and s[3] == ARGV[3] and seq == last and (count > 0 or ARGV[2] ~= ARGV[3]) then
  if s[5] ~= ARGV[5] then return redis.error_reply('REFUSED CONFLICT') end
  if ARGV[12] ~= '0' and s[10] == ARGV[12] then return {seq, tonumber(s[13]), tonumber(s[12]), 1} end
  return {seq, now, 0, 1}
end
if s[1] == '1' then return redis.error_reply('REFUSED DONE') end
if s[2] ~= ARGV[1] then return redis.error_reply('REFUSED FENCED') end
if s[3] ~= ARGV[2] or tonumber(ARGV[3]) < tonumber(s[3]) or tonumber(ARGV[3]) > tonumber(s[8]) then
  return redis.error_reply('REFUSED CURSOR')
end
if first ~= seq + 1 then return redis.error_reply('REFUSED SEQ') end
local number, round = tonumber(ARGV[12]), tonumber(s[10])
if number > round + 1 then return redis.error_reply('REFUSED GAP') end
local bytes = tonumber(s[6])
for i = head + 1, args do bytes = bytes + #ARGV[i] end
-- The terminal frame always fits: it is how a log that is full gets its end.
if bytes > tonumber(ARGV[10]) and not terminal then return redis.error_reply('REFUSED TOO_LARGE') end

-- The end also fits into a server that is full: a script that has written something, if only this, is let finish.
if terminal then redis.call('DEL', KEYS[4], KEYS[5]) end

for i = head + 1, args do
  seq = seq + 1
  if terminal and i == args then
    redis.call('XADD', KEYS[3], seq .. '-1', 'd', ARGV[i], 'e', 1)
  else
    redis.call('XADD', KEYS[3], seq .. '-1', 'd', ARGV[i])
  end
end
local entry = 0
if number == round + 1 and not terminal then
  entry = s[8] + 1
  redis.call('XADD', KEYS[2], entry .. '-1', 'k', 'round', 't', now, 'd', ARGV[13], 'r', number)
  redis.call('HSET', KEYS[1], 'in', entry, 'in_bytes', s[9] + #ARGV[13], 'round', number, 'rstate', 'open',
    'attempt', 0, 'ifence', '', 'ilease', 0, 'fr', 0, 'rn', entry, 'rt', now)
elseif ARGV[11] == '1' and s[11] == 'lost' and not terminal then
  redis.call('HSET', KEYS[1], 'rstate', 'open', 'ilease', 0, 'ifence', '', 'fr', 0)
end
if head > 16 and not terminal then
  local order, added = redis.call('HGET', KEYS[5], 'order'), 0
  for i = 17, head, 2 do
    if redis.call('HSETNX', KEYS[5], 'job:' .. ARGV[i], ARGV[i + 1]) == 1 then
      order, added = (order and order .. ',' or '') .. ARGV[i], added + 1
    end
  end
  if added > 0 then
    redis.call('HSET', KEYS[5], 'order', order, 'since', now)
    redis.call('PEXPIREAT', KEYS[5], s[7])
    redis.call('HINCRBY', KEYS[1], 'jobs', added)
  end
end
if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 'status', ARGV[7]) end
if terminal then
  local expires = now + ARGV[9]
  redis.call('HSET', KEYS[1], 'cur', ARGV[3], 'seq', seq, 'digest', ARGV[5], 'out_bytes', bytes, 'done', 1,
    'lease', 0, 'ilease', 0, 'expires', expires, 'jobs', 0, 'ended', now)
  for i = 1, 3 do redis.call('PEXPIREAT', KEYS[i], expires) end
else
  redis.call('HSET', KEYS[1], 'cur', ARGV[3], 'seq', seq, 'digest', ARGV[5], 'out_bytes', bytes,
    'lease', now + ARGV[6])
  if first == 0 and count > 0 then redis.call('PEXPIREAT', KEYS[3], s[7]) end
end
if entry > 0 then redis.call('PUBLISH', ARGV[14], entry) end
if count > 0 then redis.call('PUBLISH', ARGV[15], seq) end
return {seq, now, entry, 0}
