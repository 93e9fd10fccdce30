-- Moves the progress of a partition, if it is the expected one.
--
-- KEYS[1] the hash of progress  ARGV[1] the partition
-- KEYS[2] the rebuild tag, not in a cluster: it gets a new text whenever more than the offset and the
--         watermark of a partition change
-- ARGV[2] the expected progress  ARGV[3] the new progress; '' stands for none
-- ARGV[4] the topic of the new progress; '' leaves the stored one
-- ARGV[5] what is known of the log up to the new progress
-- Returns the progress that is there now.

local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if now ~= ARGV[2] then
  return now
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1] .. '.topic', ARGV[4])
end

redis.call('HSET', KEYS[1], ARGV[1] .. '.log', ARGV[5])

-- The epoch of progress whose rebuild has ended; nil otherwise.
local function epoch(mark)
  return string.match(mark, '^(%d+) %d')
end

if KEYS[2] and ARGV[2] ~= ARGV[3] then
  local same = epoch(ARGV[2]) and epoch(ARGV[2]) == epoch(ARGV[3])
  if not same or redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('SET', KEYS[2], ARGV[1] .. ': ' .. ARGV[2] .. ' > ' .. ARGV[3])
  end
end
return ARGV[3]
