-- Stores changes under their users' recent keys and publishes them, each unless the key has this
-- version or a newer one. Returns how many it published. It takes several changes because a call of
-- the script costs more than what it does for one.
--
-- For the i-th change:
-- KEYS[2i-1] recent key     KEYS[2i] channel (same hash tag, so the same slot)
-- ARGV[1] PUBLISH or SPUBLISH; then five for each change:
--   version                 19 digits: versions exceed the limit of Lua numbers, and digits of equal
--                           length compare the same in any locale
--   since                   19 digits, all 0 when the sender does not know
--   transition              Protobuf
--   milliseconds to store it
--   1 when an unknown since is that of the change before; 0 for a hide: what happened between hide
--   and show was never sent
local published = 0
for i = 1, #KEYS / 2 do
  local recent, channel = KEYS[2 * i - 1], KEYS[2 * i]
  local at = 5 * i - 3
  local version, since, transition, keep, carry = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local held = redis.call('GETRANGE', recent, 0, 37)
  if held == '' or string.sub(held, 1, 19) < version then
    if since == '0000000000000000000' and held ~= '' and carry == '1' then
      since = string.sub(held, 20, 38)
    end
    redis.call('SET', recent, version .. since .. transition, 'PX', keep)
    redis.call(ARGV[1], channel, since .. transition)
    published = published + 1
  end
end
return published
