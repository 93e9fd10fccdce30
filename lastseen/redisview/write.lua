-- Writes users, each only if what is there is older. The same text as one key a
-- call, for a cluster, or many. All are read with one MGET and, but for those that
-- expire, written with one MSET: a script keeps everybody else waiting.
--
-- KEYS[i]       the user's key
-- ARGV[1]       how long a user who is offline and visible, and denies nobody, stays, milliseconds
-- ARGV[2 * i]   the new value (value.go)
-- ARGV[2*i + 1] what the update knows: "s" since, "h" hidden, "t" that its times do
--               not depend on those before, "c" that it was read from the status
--               topic and confirms what is there, "r" that it replaces what is newer
--               and not confirmed, "e" that it erases the user, so that
--               nothing is taken over from what is there
-- Returns how many were written.

local VERSION, EPOCH, SINCE, HIDDEN = {2, 17}, {18, 29}, {30, 41}, {42, 57}
local SEEN, ACTIVE = {65, 76}, {77, 88}
local LENGTH = 88 -- without what few users have
local NO_SINCE, NOT_HIDDEN = string.rep('0', 12), string.rep('0', 16)
local OFFLINE_VISIBLE, ERASED = '11', '10'

local function get(value, field)
  return string.sub(value, field[1], field[2])
end

local function set(value, field, text)
  return string.sub(value, 1, field[1] - 1) .. text .. string.sub(value, field[2] + 1)
end

-- Whether the user has denied viewers; those never expire.
local function denies(value)
  return string.sub(value, 60, 60) >= '8'
end

-- The length without a name.
local function length(value)
  return denies(value) and LENGTH + 16 or LENGTH
end

local function knows(flags, what)
  return string.find(flags, what, 1, true) ~= nil
end

local written = 0
local held = redis.call('MGET', unpack(KEYS))
local results = {} -- of the keys that are written, by key
for i, key in ipairs(KEYS) do
  local new, flags = ARGV[2 * i], ARGV[2 * i + 1]
  local old = results[key] or held[i]
  if old and (#old < LENGTH or string.sub(old, 1, 1) ~= '2') then
    old = false -- a format of another time
  end

  local confirmed = old and get(old, EPOCH) >= get(new, EPOCH)
  if old and not confirmed and knows(flags, 'r') and get(old, VERSION) > get(new, VERSION) then
    old = false
  end
  local result
  if old and get(old, VERSION) > get(new, VERSION) then
    if knows(flags, 'c') and not confirmed then
      result = set(old, EPOCH, get(new, EPOCH))
    end
  elseif old and get(old, VERSION) == get(new, VERSION) then
    -- What is there knows at least as much; that it is met again confirms it.
    if not confirmed then
      result = set(old, EPOCH, get(new, EPOCH))
    end
  else
    result = new
    -- What is not known is taken over from what is there, if that can be relied
    -- on, or left open: the durable store knows it.
    if not knows(flags, 's') then
      result = set(result, SINCE, confirmed and get(old, SINCE) or NO_SINCE)
    end
    if not knows(flags, 'h') and not (confirmed and get(old, HIDDEN) == NOT_HIDDEN and string.sub(old, 59, 59) == '1') then
      result = set(result, HIDDEN, confirmed and get(old, HIDDEN) or NOT_HIDDEN)
    end
    -- Last seen and last active never go back. Where those before count and are not
    -- known, the times are left open as a whole: they may be of when the user hid.
    if confirmed and not knows(flags, 'e') then
      if get(old, SEEN) > get(result, SEEN) then result = set(result, SEEN, get(old, SEEN)) end
      if get(old, ACTIVE) > get(result, ACTIVE) then result = set(result, ACTIVE, get(old, ACTIVE)) end
    end
    if not knows(flags, 't') and not (confirmed and get(old, SINCE) ~= NO_SINCE) then
      result = set(result, SINCE, NO_SINCE)
    end
  end

  -- A name, once known, stays; a newer one counts.
  local name = string.sub(new, length(new) + 1)
  if result and name == '' and old and not knows(flags, 'e') then name = string.sub(old, length(old) + 1) end
  if result then
    result = string.sub(result, 1, length(result)) .. name
    results[key] = result
    written = written + 1
  end
end

local kept = {}
for key, result in pairs(results) do
  if string.sub(result, 58, 59) == OFFLINE_VISIBLE and not denies(result) then
    redis.call('SET', key, result, 'PX', ARGV[1])
  elseif string.sub(result, 58, 59) == ERASED then
    -- Long enough for a projector that has lost its partition to notice it.
    redis.call('SET', key, result, 'PX', 3600000)
  else
    kept[#kept + 1] = key
    kept[#kept + 1] = result
  end
end
if #kept > 0 then
  redis.call('MSET', unpack(kept))
end
return written
