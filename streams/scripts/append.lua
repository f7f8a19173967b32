-- What an attempt heard from its upstream. The producer numbers its entries 1, 2, 3, … over the attempt.
-- Where the same process translates, it may say what the entries lead to: that is committed in the same step if they
-- become the very entries that it foresaw and the log of outputs is where it was; else the entries are appended alone.
-- KEYS  1 state  2 input log; with an outcome also  3 output log
-- ARGV  1 fence  2 number of the first entry  3 lease_ms  4 max_in_bytes  5 bell  6 number of entries
--       7… kind, data, kind, data, …; with an outcome then
--       translate fence, first entry as foreseen, expected cursor, new cursor, first sequence number, digest, lease_ms,
--       max_out_bytes, bell, frames…
-- reply {first entry, t, cancelled, done, dup, committed}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1],
  'done', 'ifence', 'fr', 'in', 'in_bytes', 'cancel', 'rstate', 'round', 'attempt', 'opened', 'an',
  'fence', 'cur', 'seq', 'digest', 'out_bytes')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
local fence, first, count, fr = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6]), tonumber(s[3])
local last, args, outcome = first + count - 1, 6 + 2 * count, KEYS[3] ~= nil

if s[2] == fence and last <= fr then
  -- A repeat. Entries of other producers (cancel, tool results) may stand between this attempt's own, so the
  -- numbers are counted back from the tail; one batch was written by one script, hence is contiguous.
  local number, below, lowest, stamp = fr, '+', nil, now
  local floor = (s[11] + 1) .. '-1'
  while number >= first do
    local page = redis.call('XREVRANGE', KEYS[2], below, floor, 'COUNT', 100)
    if #page == 0 then break end
    for _, entry in ipairs(page) do
      local n, f = tonumber(string.match(entry[1], '^%d+')), entry[2]
      if f[2] == 'frame' or f[2] == 'opened' or f[2] == 'round_end' then
        if number <= last then
          local at = 7 + 2 * (number - first)
          if f[2] ~= ARGV[at] or f[6] ~= ARGV[at + 1] or (lowest and lowest ~= n + 1) then
            return redis.error_reply('REFUSED CONFLICT')
          end
          lowest, stamp = n, tonumber(f[4])
        end
        number = number - 1
        if number < first then break end
      end
      below = (n - 1) .. '-1'
    end
  end
  local committed = outcome and s[12] == ARGV[args + 1] and s[13] == ARGV[args + 4]
    and s[14] == ARGV[args + 5] + #ARGV - args - 10 .. '' and s[15] == ARGV[args + 6]
  return {lowest or s[11] + first, stamp, tonumber(s[6]), tonumber(s[1]), 1, committed and 1 or 0}
end

if s[1] == '1' then return redis.error_reply('REFUSED DONE') end
if s[2] ~= fence or s[7] ~= 'running' then return redis.error_reply('REFUSED FENCED') end
if first > fr + 1 then return redis.error_reply('REFUSED GAP') end
if first <= fr then return redis.error_reply('REFUSED CONFLICT') end
local bytes, n, ended, opened = tonumber(s[5]), tonumber(s[4]), nil, s[10]
for i = 8, args, 2 do bytes = bytes + #ARGV[i] end
if ARGV[args - 1] == 'round_end' then ended = ARGV[args] end
-- The end of a round always fits: it is how a log that is full gets its end.
if bytes > tonumber(ARGV[4]) and not (ended and count == 1) then
  return redis.error_reply('REFUSED TOO_LARGE')
end

local seq, out_bytes = tonumber(s[14]), tonumber(s[16])
if outcome then
  for i = args + 10, #ARGV do out_bytes = out_bytes + #ARGV[i] end
  outcome = s[12] == ARGV[args + 1] and n + 1 == tonumber(ARGV[args + 2]) and s[13] == ARGV[args + 3]
    and seq >= 0 and seq + 1 == tonumber(ARGV[args + 5]) and out_bytes <= tonumber(ARGV[args + 8])
end
-- So it does in a server that is full: a script that has written something, if only this, is let finish.
if ended and count == 1 then redis.call('HDEL', KEYS[1], '') end

local stamp = now .. ''
for i = 7, args, 2 do
  local kind = ARGV[i]
  n = n + 1
  if kind == 'frame' then
    redis.call('XADD', KEYS[2], n .. '-1', 'k', kind, 't', stamp, 'd', ARGV[i + 1])
  else
    redis.call('XADD', KEYS[2], n .. '-1', 'k', kind, 't', stamp, 'd', ARGV[i + 1], 'r', s[8], 'a', s[9])
    if kind == 'opened' then opened = '1' end
  end
end
if outcome then
  for i = args + 10, #ARGV do
    seq = seq + 1
    redis.call('XADD', KEYS[3], seq .. '-1', 'd', ARGV[i])
  end
  redis.call('HSET', KEYS[1], 'fr', last, 'in', n, 'in_bytes', bytes, 'opened', opened, 'ilease', now + ARGV[3],
    'cur', ARGV[args + 4], 'seq', seq, 'digest', ARGV[args + 6], 'out_bytes', out_bytes, 'lease', now + ARGV[args + 7])
  redis.call('PUBLISH', ARGV[args + 9], seq)
elseif ended then
  redis.call('HSET', KEYS[1], 'fr', last, 'in', n, 'in_bytes', bytes, 'opened', opened, 'rstate', 'ended', 'ilease', 0)
  if s[8] == '1' and opened ~= '1' then redis.call('HSET', KEYS[1], 'refusal', ended) end
else
  redis.call('HSET', KEYS[1], 'fr', last, 'in', n, 'in_bytes', bytes, 'opened', opened, 'ilease', now + ARGV[3])
end
-- Who waits for entries is the holder of the translate lease, and has them; or waits for the upstream's yes.
if not outcome or opened ~= s[10] then redis.call('PUBLISH', ARGV[5], n) end
return {n - count + 1, now, tonumber(s[6]), 0, 0, outcome and 1 or 0}
