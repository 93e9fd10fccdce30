-- Changes the list of the viewers whom a user denies. Whatever comes, and in whatever order, the list is the one of its
-- version, or there is none.
--
-- KEYS[1] the list (denied.go)  KEYS[2] the user's entry (value.go)
-- ARGV[1] "change", "erase" or "fill"  ARGV[2] the version of the list after it, fixed width
-- change: ARGV[3] the version before; '' is no list  ARGV[4] since when and by which version  ARGV[5] how many viewers are added
--         ARGV[6] and so on: the viewers who are added, then those who are removed
-- fill:   ARGV[3], ARGV[4] and so on: a viewer, and since when and by which version
-- Returns 0.

local what, version = ARGV[1], ARGV[2]
local held = redis.call('HGET', KEYS[1], 'v') or ''
local entry = redis.call('GET', KEYS[2]) or ''
if held >= version then
  return 0
end
if what == 'change' and held == ARGV[3] then
  -- Without a list, an entry as new says that the list was lost, or that the user was erased.
  if held == '' and string.sub(entry, 1, 1) == '2' and string.sub(entry, 2, 17) >= version then
    return 0
  end
  redis.call('HSET', KEYS[1], 'v', version)
  for i = 6, #ARGV do
    if i < 6 + ARGV[5] then
      redis.call('HSET', KEYS[1], ARGV[i], ARGV[4])
    else
      redis.call('HDEL', KEYS[1], ARGV[i])
    end
  end
  return 0
end
if what == 'fill' and (string.sub(entry, 60, 60) < '8' or string.sub(entry, 89, 104) > version) then
  return 0 -- the user was erased, or the list is older than the entry
end
redis.call('DEL', KEYS[1]) -- also if changes are missing in between
if what == 'fill' then
  redis.call('HSET', KEYS[1], 'v', version)
  for i = 3, #ARGV, 1000 do
    redis.call('HSET', KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV)))
  end
end
return 0
