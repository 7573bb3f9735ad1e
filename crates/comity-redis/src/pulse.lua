-- A member's sign of life: who shares this store, in which order, and since when its state is.
--
-- KEYS: the members' record, the generation's. ARGV[1] is a msgpack map, and so is the answer.
local call = cmsgpack.unpack(ARGV[1])
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
local kept = redis.call('GET', KEYS[1])
local members = kept and cmsgpack.unpack(kept) or {}
for id, member in pairs(members) do
  if member.seen > clock then member.seen = clock end
  if member.seen + call.lease < clock then members[id] = nil end
end

local answer = {t = clock}
local mine = members[call.me]
if call.leave then
  if mine and mine.token == call.token then members[call.me] = nil end
elseif mine and mine.token ~= call.token then
  answer.taken = true
else
  members[call.me] = {joined = mine and mine.joined or clock, seen = clock, token = call.token}
end
if next(members) then
  redis.call('SET', KEYS[1], cmsgpack.pack(members), 'PX', math.ceil(call.lease / 1000) + 60000)
else
  redis.call('DEL', KEYS[1])
end

local order = {}
for id, member in pairs(members) do table.insert(order, {member.joined, id}) end
table.sort(order, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
answer.members, answer.rank = #order, 0
for at, member in ipairs(order) do
  if member[2] == call.me then answer.rank = at - 1 end
end

local known = redis.call('GET', KEYS[2])
local generation = known and cmsgpack.unpack(known)
if not generation and not call.leave then
  generation = {id = call.rid, born = clock, lost = call.gen and true or false}
  redis.call('SET', KEYS[2], cmsgpack.pack(generation))
elseif generation and call.gen and call.gen ~= generation.id and not generation.lost then
  generation.lost = true
  redis.call('SET', KEYS[2], cmsgpack.pack(generation))
end
if generation then
  answer.g = generation.id
  answer.gb = generation.lost and generation.born or nil
end
return cmsgpack.pack(answer)
