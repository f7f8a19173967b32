-- Entries after a number; where there are none, in the same step whether the logs are packed.
-- KEYS  1 state  2 input log
-- ARGV  1 after  2 count  3 bytes: past them no further entry, but always one; 0: no such bound
-- reply {sealed, entries}
local entries = redis.call('XRANGE', KEYS[2], (ARGV[1] + 1) .. '-1', '+', 'COUNT', ARGV[2])
if #entries == 0 then return {redis.call('HEXISTS', KEYS[1], 'sealed'), entries} end
local bytes, most = 0, tonumber(ARGV[3])
if most > 0 then
  for i, entry in ipairs(entries) do
    bytes = bytes + #entry[2][6]
    if bytes > most and i > 1 then
      for j = #entries, i, -1 do entries[j] = nil end
      break
    end
  end
end
return {0, entries}
