-- Writes the counts of a partition, unless newer ones are there.
--
-- KEYS[1] the hash of counts  ARGV[1] the partition  ARGV[2] the log time, fixed width  ARGV[3] the counts

local held = redis.call('HGET', KEYS[1], ARGV[1])
if held and string.sub(held, 1, #ARGV[2]) > ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
return 1
