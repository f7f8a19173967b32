-- Frames after a sequence number together with the state, in one step: an end, an expiry or a seal is seen, never
-- mistaken for emptiness.
-- KEYS  1 state  2 output log
-- ARGV  1 after  2 count  3 bytes: past them no further frame, but always one
-- reply {seq, done, status, sealed, entries, bytes of all frames}; of packed logs there are no entries
local s = redis.call('HMGET', KEYS[1], 'done', 'seq', 'status', 'sealed', 'out_bytes')
if not s[1] then return redis.error_reply('REFUSED MISSING') end
local entries = {}
if tonumber(s[2]) > tonumber(ARGV[1]) then
  entries = redis.call('XRANGE', KEYS[2], (ARGV[1] + 1) .. '-1', '+', 'COUNT', ARGV[2])
  local bytes, most = 0, tonumber(ARGV[3])
  for i, entry in ipairs(entries) do
    bytes = bytes + #entry[2][2]
    if bytes > most and i > 1 then
      for j = #entries, i, -1 do entries[j] = nil end
      break
    end
  end
end
return {tonumber(s[2]), tonumber(s[1]), s[3], s[4] and 1 or 0, entries, tonumber(s[5])}
