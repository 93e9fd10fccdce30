-- Moves the mark of a partition, if it is the one expected.
--
-- KEYS[1] the hash of marks     ARGV[1] the partition
-- ARGV[2] the mark expected     ARGV[3] the new mark; '' stands for none
-- Returns the mark that is there now.

local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if now ~= ARGV[2] then
  return now
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return ARGV[3]
