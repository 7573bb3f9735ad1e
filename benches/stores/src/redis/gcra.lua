-- The generic cell rate algorithm of one key, as limiters on Redis offer it: the key holds the theoretical arrival time.
-- In: burst, rate, period in seconds, cost. Out: whether it may start, what is left, seconds to wait, seconds until all is left.
local interval = tonumber(ARGV[3]) / tonumber(ARGV[2])
local tolerance = interval * tonumber(ARGV[1])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6

local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local next_arrival = arrival + interval * tonumber(ARGV[4])
local left = now - (next_arrival - tolerance)
if left < 0 then
  return {0, 0, tostring(-left), tostring(arrival - now)}
end
redis.call('SET', KEYS[1], string.format('%.6f', next_arrival), 'EX', math.ceil(next_arrival - now))
return {1, math.floor(left / interval), '-1', tostring(next_arrival - now)}
