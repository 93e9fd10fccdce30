-- Moves the mark of a partition, if it is the one expected.
--
-- KEYS[1] the hash of marks     ARGV[1] the partition
-- KEYS[2] the rebuilds' tag, not in a cluster: a text that was never there before,
--         each time that more than how far the partition is has changed
-- ARGV[2] the mark expected     ARGV[3] the new mark; '' stands for none
-- ARGV[4] the topic of which the new mark is; '' leaves what is kept
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
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1] .. '.topic', ARGV[4])
end

-- The epoch of a mark whose rebuild has ended; nil of others.
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
