-- The sweeper ends the jobs that nobody will run: their worker died and they must not run again, or no worker has taken
-- any of the response's for too long. Each gets a failed result.
-- KEYS  1 state  2 input log  3 jobs
-- ARGV  1 most tries  2 rest of a failed result's data (behind its key)  3 the same of a failed list  4 bell
--       5 longest wait for a worker, ms  6 and 7 as 2 and 3, for jobs that waited too long
-- reply {now, when the next live claim runs out or 0, jobs that are free, entry, kind, data, entry, kind, data, …}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1], 'done', 'in', 'in_bytes', 'jobs', 'results')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
if s[1] == '1' then return redis.error_reply('REFUSED DONE') end
local n, bytes, soonest, free, ended, results = tonumber(s[2]), tonumber(s[3]), 0, {}, {}, s[5]

-- A write that needs no memory comes first: a script that has written is let finish by a server that is full.
redis.call('HDEL', KEYS[1], '')

local function fail(key, list, rest)
  local kind = list and 'tools_listed' or 'tool_result'
  local data = '{"key":"' .. key .. '",' .. rest
  n, bytes = n + 1, bytes + #data
  redis.call('XADD', KEYS[2], n .. '-1', 'k', kind, 't', now, 'd', data)
  redis.call('HSET', KEYS[3], 'done:' .. key, n .. ':' .. now)
  if not list then results = (results and results .. ',' or '') .. key .. ':' .. n end
  for _, part in ipairs({n, kind, data}) do ended[#ended + 1] = part end
end

for key in string.gmatch(redis.call('HGET', KEYS[3], 'order') or '', '[^,]+') do
  local j = redis.call('HMGET', KEYS[3], 'done:' .. key, 'claim:' .. key, 'job:' .. key)
  local till, tries = string.match(j[2] or '', '^[^:]*:(%d+):(%d+)$')
  if not j[1] and not till then
    free[#free + 1] = key
  elseif not j[1] and now < tonumber(till) then
    if soonest == 0 or tonumber(till) < soonest then soonest = tonumber(till) end
  elseif not j[1] then
    local job = cjson.decode(j[3])
    if tonumber(tries) < tonumber(ARGV[1]) and (job.kind == 'list' or job.idempotent == true) then
      free[#free + 1] = key
    else
      local list = job.kind == 'list'
      fail(key, list, ARGV[list and 3 or 2])
    end
  end
end
-- While one of the response's calls runs, the others may wait for it to end.
local since = tonumber(redis.call('HGET', KEYS[3], 'since') or now)
if soonest == 0 and #free > 0 and now - since > tonumber(ARGV[5]) then
  for _, key in ipairs(free) do
    local list = cjson.decode(redis.call('HGET', KEYS[3], 'job:' .. key)).kind == 'list'
    fail(key, list, ARGV[list and 7 or 6])
  end
  free = {}
end
if #ended > 0 then
  redis.call('HSET', KEYS[1], 'in', n, 'in_bytes', bytes, 'jobs', math.floor(s[4] - #ended / 3))
  if results then redis.call('HSET', KEYS[1], 'results', results) end
  redis.call('PUBLISH', ARGV[4], n)
end
local reply = {now, soonest, #free}
for _, part in ipairs(ended) do reply[#reply + 1] = part end
return reply
