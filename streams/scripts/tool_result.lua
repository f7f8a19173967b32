-- What a job came to. The first result of a job wins, whoever brings it.
-- KEYS  1 state  2 input log  3 jobs
-- ARGV  1 key  2 kind of the entry  3 data  4 max_in_bytes  5 what always fits  6 bell
-- reply {entry, t, jobs without a result, dup}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1], 'done', 'in', 'in_bytes', 'jobs', 'results')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
local j = redis.call('HMGET', KEYS[3], 'done:' .. ARGV[1], 'job:' .. ARGV[1])
if j[1] then
  local n, t = string.match(j[1], '^(%d+):(%d+)$')
  return {tonumber(n), tonumber(t), tonumber(s[4]), 1}
end
if s[1] == '1' then return redis.error_reply('REFUSED DONE') end
if not j[2] then return redis.error_reply('REFUSED GAP') end
local bytes = s[3] + #ARGV[3]
-- A short one always fits: it is how a call whose result is too large gets one.
if bytes > tonumber(ARGV[4]) and #ARGV[3] > tonumber(ARGV[5]) then return redis.error_reply('REFUSED TOO_LARGE') end

-- Also in a server that is full: a script that has written something, if only this, is let finish.
if #ARGV[3] <= tonumber(ARGV[5]) then redis.call('HDEL', KEYS[1], '') end
local n = s[2] + 1
redis.call('XADD', KEYS[2], n .. '-1', 'k', ARGV[2], 't', now, 'd', ARGV[3])
redis.call('HSET', KEYS[3], 'done:' .. ARGV[1], n .. ':' .. now, 'since', now)
redis.call('HSET', KEYS[1], 'in', n, 'in_bytes', bytes, 'jobs', s[4] - 1)
if ARGV[2] == 'tool_result' then
  redis.call('HSET', KEYS[1], 'results', (s[5] and s[5] .. ',' or '') .. ARGV[1] .. ':' .. n)
end
redis.call('PUBLISH', ARGV[6], n)
return {n, now, s[4] - 1, 0}
