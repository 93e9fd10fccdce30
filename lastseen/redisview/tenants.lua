-- Replaces the counts of the tenants of a partition, unless newer ones are there.
--
-- KEYS[1] the hash  ARGV[1] the log time, fixed width  ARGV[2] the counts of other tenants, or nothing
-- ARGV[3], ARGV[4] and so on: a field and its counts

local held = redis.call('HGET', KEYS[1], '@')
if held and string.sub(held, 1, #ARGV[1]) > ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], '@', ARGV[1] .. ARGV[2], unpack(ARGV, 3))
return 1
