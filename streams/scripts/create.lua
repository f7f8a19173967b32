-- A response begins: its state, the `request` entry and, unless tools must be listed first, `round` 1. Whoever creates it
-- may take it for translating at once, and its round for running: what `acquire` and `claim_round` would grant.
-- KEYS  1 state  2 input log  3 jobs  4 secrets; where open responses are bounded also  5 their places
-- ARGV  1 tenant  2 store  3 background  4 request  5 run_ms  6 retention_ms  7 round follows (0|1)  8 round body
--       9 secrets or ''  10 token of the translate lease or ''  11 its ms  12 token of the claim or ''  13 its ms
--       14… key of a job, its data, …
-- reply {created, last entry, dup, translate fence or '', round's fence or ''}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local rounds = tonumber(ARGV[7])
local last = 1 + rounds
local leased, claimed = ARGV[10] ~= '', ARGV[12] ~= ''
local fence, ifence = '', ''
if leased then fence = '1:' .. ARGV[10] end
if claimed then
  ifence = '1.1:' .. ARGV[12]
  last = last + 1
end
local old = redis.call('HMGET', KEYS[1], 'tenant', 'created', 'sealed', 'fence', 'ifence', 'done')
if old[1] then
  -- The id is minted at random, so an existing one is this very call repeated: same tenant, same request (which a
  -- sealed log no longer shows).
  local first = redis.call('XRANGE', KEYS[2], '1-1', '1-1')[1]
  if old[1] == ARGV[1] and (old[3] or first and first[2][6] == ARGV[4]) then
    -- What was granted then may have been lost since, to another process.
    if old[4] ~= fence or old[6] == '1' then fence = '' end
    if old[5] ~= ifence or old[6] == '1' then ifence = '' end
    return {tonumber(old[2]), last, 1, fence, ifence}
  end
  return redis.error_reply('REFUSED EXISTS')
end

-- `due_begin` went before, in the same pipeline: what it refused is not created.
if KEYS[5] and not redis.call('ZSCORE', KEYS[5], string.match(KEYS[1], '{(.-)}')) then
  return redis.error_reply('REFUSED FULL')
end
local life = ARGV[5] + ARGV[6]
redis.call('HSET', KEYS[1],
  'tenant', ARGV[1], 'status', 'queued', 'created', now, 'store', ARGV[2], 'background', ARGV[3],
  'expires', now + life, 'deadline', now + ARGV[5],
  'round', rounds, 'rstate', claimed and 'running' or rounds == 1 and 'open' or '', 'attempt', claimed and 1 or 0,
  'ifence', ifence, 'ilease', claimed and now + ARGV[13] or 0, 'fr', 0, 'an', claimed and last or 0,
  'at', claimed and now or 0, 'rn', 2, 'rt', now, 'in', last, 'in_bytes', #ARGV[4] + #ARGV[8],
  'opened', 0, 'refusal', '', 'fence', fence, 'epoch', leased and 1 or 0,
  'lease', leased and now + ARGV[11] or 0, 'cur', 0, 'seq', -1, 'digest', '', 'out_bytes', 0,
  'done', 0, 'cancel', 0, 'reader', 0, 'jobs', math.floor((#ARGV - 13) / 2))
redis.call('XADD', KEYS[2], '1-1', 'k', 'request', 't', now, 'd', ARGV[4])
if rounds == 1 then
  redis.call('XADD', KEYS[2], '2-1', 'k', 'round', 't', now, 'd', ARGV[8], 'r', 1)
end
if claimed then
  redis.call('XADD', KEYS[2], last .. '-1', 'k', 'attempt', 't', now, 'd', '{}', 'r', 1, 'a', 1)
end
if #ARGV > 13 then
  local order = {}
  for i = 14, #ARGV, 2 do
    order[#order + 1] = ARGV[i]
    redis.call('HSET', KEYS[3], 'job:' .. ARGV[i], ARGV[i + 1])
  end
  redis.call('HSET', KEYS[3], 'order', table.concat(order, ','), 'since', now)
  redis.call('PEXPIRE', KEYS[3], life)
end
if ARGV[9] ~= '' then
  redis.call('HSET', KEYS[4], 'd', ARGV[9])
  redis.call('PEXPIRE', KEYS[4], life)
end
redis.call('PEXPIRE', KEYS[1], life)
redis.call('PEXPIRE', KEYS[2], life)
return {now, last, 0, fence, ifence}
