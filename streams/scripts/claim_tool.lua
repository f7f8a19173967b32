-- A tool worker takes the first job that is free, while fewer than `limit` of the response's run.
-- A claim that ran out is given again only where running twice does no harm, and not for ever: its worker may have died of it.
-- KEYS  1 state  2 jobs
-- ARGV  1 token  2 lease_ms  3 limit  4 most tries
-- reply {key, data, fence, t, jobs that are still free, dup}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local s = redis.call('HMGET', KEYS[1], 'done', 'cancel')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
local live, free, first, tried, mine = 0, 0, nil, 0, nil
for key in string.gmatch(redis.call('HGET', KEYS[2], 'order') or '', '[^,]+') do
  local j = redis.call('HMGET', KEYS[2], 'done:' .. key, 'claim:' .. key)
  local token, till, tries = string.match(j[2] or '', '^([^:]*):(%d+):(%d+)$')
  if token == ARGV[1] then mine = key end
  if not j[1] then
    if token and now < tonumber(till) then
      live = live + 1
    else
      local may = not token
      if token and tonumber(tries) < tonumber(ARGV[4]) then
        local job = cjson.decode(redis.call('HGET', KEYS[2], 'job:' .. key))
        may = job.kind == 'list' or job.idempotent == true
      end
      if may then
        free = free + 1
        if not first then first, tried = key, tonumber(tries or 0) end
      end
    end
  end
end
if mine then
  return {mine, redis.call('HGET', KEYS[2], 'job:' .. mine), mine .. ':' .. ARGV[1], now, free, 1}
end
if s[1] == '1' then return redis.error_reply('REFUSED DONE') end
-- What was cancelled ends at its cancel entry; nothing more is begun for it.
if not first or s[2] == '1' then return redis.error_reply('REFUSED NOTHING') end
if live >= tonumber(ARGV[3]) then return redis.error_reply('REFUSED LEASED') end

redis.call('HSET', KEYS[2], 'claim:' .. first, ARGV[1] .. ':' .. (now + ARGV[2]) .. ':' .. (tried + 1), 'since', now)
return {first, redis.call('HGET', KEYS[2], 'job:' .. first), first .. ':' .. ARGV[1], now, free - 1, 0}
