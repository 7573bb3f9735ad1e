-- One request's charges: decide all, then charge all.
--
-- KEYS are the buckets, in the order of the charges, and at last the generation. ARGV[1] is one msgpack map, and so is the
-- answer. A bucket is `TOKENS:LAST` in decimal digits, LAST in whole microseconds on this server's clock; what the two mean
-- depends on the limit, as in the core: tokens and the end of the last refill step, what is left of a window and its
-- beginning, nothing and the next start of a leaky bucket. The answer's buckets are those that were decided on, brought up to
-- the present and not charged, so that whoever asked comes to the same verdict by itself.
--
-- A charge:  k   b bucket, w window, l leaky bucket     c   cost; of a leaky bucket what it moves the next start by
--            m   most tokens                            r i refill and interval; of a window its length
--            q   how far ahead the next start may lie   o   how far it may lie for this one to be let in
local call = cmsgpack.unpack(ARGV[1])
local clock = call.now
if not clock then
  local time = redis.call('TIME')
  clock = time[1] * 1000000 + time[2]
end
local MOST = 9007199254740991
local charges = call.b
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local kept = redis.call('MGET', unpack(KEYS))

-- Since when this state is, and whether another was lost before it: then all that is not here was spent.
local generation = kept[#KEYS] and cmsgpack.unpack(kept[#KEYS])
local before = generation
if not generation then
  generation = {id = call.rid, born = clock, lost = call.gen and true or false}
elseif call.gen and call.gen ~= generation.id and not generation.lost then
  generation.lost, before = true, nil
end
-- A clock that went back.
if generation.born > clock then generation.born, before = clock, nil end
if not before then redis.call('SET', KEYS[#KEYS], cmsgpack.pack(generation)) end
local born = generation.lost and generation.born

local function text(bucket) return string.format('%.0f:%.0f', bucket.tokens, bucket.last) end

local function fresh(a)
  if a.k == 'l' then return {tokens = 0, last = born and born + a.q or clock} end
  return {tokens = born and 0 or a.m, last = born or clock}
end

local function full_at(a, bucket)
  if a.k == 'l' or bucket.tokens >= a.m then return bucket.last end
  if a.k == 'w' then return bucket.last + a.i end
  return bucket.last + ceil((a.m - bucket.tokens) / a.r) * a.i
end

local function refill(a, bucket)
  -- A clock that went back holds nobody for longer than a limit does.
  bucket.last = min(bucket.last, clock + (a.q or 0))
  if a.k == 'w' and full_at(a, bucket) <= clock then
    bucket.tokens, bucket.last = a.m, clock
  elseif a.k == 'b' then
    local steps = floor((clock - bucket.last) / a.i)
    bucket.tokens, bucket.last = bucket.tokens + steps * a.r, bucket.last + steps * a.i
  end
  bucket.tokens = min(bucket.tokens, a.m or 0)
end

local function lets_in(a, bucket)
  if a.k == 'l' then return bucket.last - clock <= a.o end
  return bucket.tokens >= a.c
end

local buckets, all = {}, true
local answer = {t = string.format('%.0f', clock), g = generation.id, b = {}}
for n, a in ipairs(charges) do
  local tokens, last = string.match(kept[n] or '', '^(%d+):(%d+)$')
  local bucket = tokens and {tokens = tonumber(tokens), last = tonumber(last), kept = true} or fresh(a)
  refill(a, bucket)
  all = lets_in(a, bucket) and all
  buckets[n], answer.b[n] = bucket, text(bucket)
end
answer.ok = all

for n, a in ipairs(charges) do
  local bucket = buckets[n]
  if all and a.k == 'l' then bucket.last = min(max(bucket.last, clock) + a.c, MOST)
  elseif all then bucket.tokens = bucket.tokens - a.c end
  local now_kept = text(bucket)
  -- One that nobody was let in by is as good as none.
  if (all or bucket.kept) and now_kept ~= kept[n] then
    local left = max(full_at(a, bucket) - clock, 0)
    -- A minute after it is full: that it has expired is never to be observed.
    redis.call('SET', KEYS[n], now_kept, 'PX', string.format('%.0f', min(floor(left / 1000) + 60001, MOST)))
  end
end
return cmsgpack.pack(answer)
