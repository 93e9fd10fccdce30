-- Writes which users are unsure, unless something newer is there. The same text as one user a call,
-- for a cluster, or many.
--
-- KEYS[2*i-1]  the user's entry (value.go)   KEYS[2*i]  since when the user is unsure (unsure.go)
-- ARGV[1]      how long it stays if nothing ends it, milliseconds
-- ARGV[1+i]    the new value
-- Returns how many were written.
local VERSION_FIRST, VERSION_LAST = 2, 17

local written = 0
local held = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS / 2 do
  local new, newer = ARGV[1 + i], false
  local version = string.sub(new, VERSION_FIRST, VERSION_LAST)
  -- A user may come several times in one call.
  local old = redis.call('GET', KEYS[2 * i])
  -- By a newer entry the user has changed since: what was unsure before is over.
  for _, value in ipairs({held[2 * i - 1] or '', old or ''}) do
    if string.sub(value, 1, 1) == '2' and string.sub(value, VERSION_FIRST, VERSION_LAST) > version then newer = true end
  end
  if not newer then
    -- The end stays as long as a begin would, so that an older begin that comes again stays out.
    redis.call('SET', KEYS[2 * i], new, 'PX', ARGV[1])
    written = written + 1
  end
end
return written
