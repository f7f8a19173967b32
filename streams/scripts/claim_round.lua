-- An ingest process takes the open round; the fold resets that round at the `attempt` entry.
-- A round that runs is held until `lost` has said otherwise, whatever its lease: its upstream cannot be taken over.
-- KEYS  1 state  2 input log
-- ARGV  1 round (0: whichever is open)  2 token  3 lease_ms  4 bell
-- reply {round, attempt, fence, entry, t, dup, body of the round, data of the request}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1], 'done', 'round', 'rstate', 'attempt', 'ifence', 'in', 'an', 'at', 'rn')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
local round = ARGV[1] == '0' and s[2] or ARGV[1]
local request = redis.call('XRANGE', KEYS[2], '1-1', '1-1')[1]
request = request and request[2][6] or ''
local body = redis.call('XRANGE', KEYS[2], s[9] .. '-1', s[9] .. '-1')[1]
if s[5] == round .. '.' .. s[4] .. ':' .. ARGV[2] then
  return {tonumber(round), tonumber(s[4]), s[5], tonumber(s[7]), tonumber(s[8]), 1, body and body[2][6] or '', request}
end
if s[1] == '1' then return redis.error_reply('REFUSED DONE') end
if s[2] ~= round then return redis.error_reply('REFUSED STALE') end
if s[3] == 'running' then return redis.error_reply('REFUSED LEASED') end
if s[3] ~= 'open' then return redis.error_reply('REFUSED STALE') end
if not body then return redis.error_reply('REFUSED GAP') end

local attempt, n = s[4] + 1, s[6] + 1
local fence = round .. '.' .. attempt .. ':' .. ARGV[2]
redis.call('XADD', KEYS[2], n .. '-1', 'k', 'attempt', 't', now, 'd', '{}', 'r', round, 'a', attempt)
redis.call('HSET', KEYS[1], 'rstate', 'running', 'attempt', attempt, 'ifence', fence, 'ilease', now + ARGV[3],
  'fr', 0, 'in', n, 'an', n, 'at', now)
redis.call('PUBLISH', ARGV[4], n)
return {tonumber(round), attempt, fence, n, now, 0, body[2][6], request}
