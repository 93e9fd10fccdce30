-- Writes when users were heard last, unless something newer is there. The same text as one user a
-- call, for a cluster, or many.
--
-- KEYS[2*i-1]  the user's entry (value.go)   KEYS[2*i]  when the user was heard (seen.go)
-- ARGV[1]      how long it stays without a newer one, milliseconds
-- ARGV[1+i]    the new value
-- Returns how many were written.

local VERSION, AT, DEVICES, WIDTH = {2, 17}, {18, 29}, 38, 34
local ENTRY_SINCE = {30, 41} -- of the entry
local ID, SINCE = 8, {11, 22} -- of a device

local function get(value, field, from)
  return string.sub(value, field[1] + (from or 0), field[2] + (from or 0))
end

-- Where the device at position p of new is in old; nil if it is not.
local function find(old, new, p)
  local id = string.sub(new, p, p + ID - 1)
  for q = DEVICES, #old, WIDTH do
    if string.sub(old, q, q + ID - 1) == id then return q end
  end
end

-- new, with devices that were there before since the instant that old says.
local function continued(old, new)
  for p = DEVICES, #new, WIDTH do
    local q = find(old, new, p)
    local since = q and get(old, SINCE, q - 1)
    if since and since < get(new, SINCE, p - 1) then
      new = string.sub(new, 1, p - 2 + SINCE[1]) .. since .. string.sub(new, p + SINCE[2])
    end
  end
  return new
end

local written = 0
local held = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS / 2 do
  local entry, old, new = held[2 * i - 1], held[2 * i], ARGV[1 + i]
  if old and string.sub(old, 1, 1) ~= '2' then
    old = false -- a format of another time
  end
  local newer = old and get(old, AT) >= get(new, AT)
  -- By a newer version the user is offline, or hidden.
  if entry and get(entry, VERSION) > get(new, VERSION) and
    (string.sub(entry, 58, 58) == '1' or string.sub(entry, 59, 59) ~= '1') then
    newer = true
  end
  if not newer then
    -- A change of state since the old row: the user may have been offline or hidden in between.
    local changed = entry and old and get(entry, ENTRY_SINCE) > get(old, AT)
    if old and not changed then new = continued(old, new) end
    redis.call('SET', KEYS[2 * i], new, 'PX', ARGV[1])
    written = written + 1
  end
end
return written
