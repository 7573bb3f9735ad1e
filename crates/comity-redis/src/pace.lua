-- One call about the scopes of one slot: decide all, then charge all.
--
-- KEYS are the scopes' records, then what else a call names by its number. ARGV[1] is one msgpack map, and so is the answer.
-- Instants are whole microseconds on this server's clock. A record knows spacing, pressure, pauses, quotas, windows, places
-- in flight and turns; what else a policy learned is bytes with a version that only its owner reads (field `b`).
--
-- A record:  v, w    virtual start of the set spacing and of the pace      l            last start
--            pu pr pn pw  pause: end, restart (0 free, 1 due, 2 out), repeats, length of the longest
--            ti ts tl     the trial: whose, started, last sign of life       c            Crawl-delay
--            k i b bv     policy, learned interval, its bytes, their version p d s        pressure, drained, spacing in ms
--            cn           learned concurrency, of the same version as the interval
--            q            advertised quota: li wi re he rs                   n            what was counted
--            f            places in flight: member = {count, last sign of life}
--            e            the same of requests under limits that a caller brought, each of them one
--            o om fr      members that wait, in order; those passed over once; when a place last came free
--            mi mt        the greatest set interval that members lately asked with, until when it holds for all of them
--            wc wl wt     how many starts back and how long the log reaches, for whom it does last so asked
--            kt           when a member with this policy last started         r            starts reserved ahead: member = until
--            fg lo hi mf  times forgotten, last made slower, interval and places at the last start
--            x            when the record can no longer matter
local call = cmsgpack.unpack(ARGV[1])
local me, lease = call.me, call.lease
local clock = call.now
if not clock then
  local time = redis.call('TIME')
  clock = time[1] * 1000000 + time[2]
end

local FAR = 9007199254740991
local HOUR, KEPT = 3600000000, 2592000000000
local LEAST_HOLD = 5000000
local DENSE = 10000
local floor, max, min = math.floor, math.max, math.min
local scopes, dirty, logs = {}, {}, {}

local function late_by(interval) return max(3000, floor(interval / 10)) end
local function credit(interval) return interval < DENSE and DENSE or late_by(interval) end
local function usable_late(interval) return interval < DENSE and 50000 or late_by(interval) end

local function later(S, field, at)
  if at and (not S[field] or S[field] < at) then S[field] = at return true end
end

-- How long a member's set interval holds for the others after it asked.
local function hold(interval) return max(3 * interval, LEAST_HOLD) end

-- The set interval that holds for everybody: a faster one would start in every gap that a slower waits for.
local function strictest(S) return (S.mt or 0) > clock and S.mi or 0 end

-- What another kind of policy learned is not this one's to use or to change, while there is somebody who has that policy.
local function foreign(S, a)
  if not S.k or not a.k or S.k == a.k or clock - (S.kt or S.l or 0) >= HOUR then return false end
  if S.k == 'p' then return (S.p or 0) > floor(max(0, clock - (S.d or 0)) / 100000) end
  return S.b ~= nil
end

-- Instants of a clock that has since gone back: the last start cannot lie so far ahead, and all else moves with it.
local function moved(S, by)
  for _, field in ipairs({'v', 'w', 'l', 'pu', 'd', 'ts', 'tl', 'fr', 'x', 'mt', 'wt', 'kt'}) do
    if S[field] then S[field] = S[field] - by end
  end
  if S.q then S.q.he, S.q.rs = S.q.he - by, S.q.rs - by end
end

-- What the others hold, less what those hold that gave no sign of life.
local function of_others(places)
  local others = 0
  for id, place in pairs(places) do
    if place[2] > clock then place[2] = clock end
    if id ~= me then
      if place[2] + lease < clock then places[id] = nil else others = others + place[1] end
    end
  end
  return others
end

local function live(S)
  if S.l and S.l > clock + 1500000 then moved(S, S.l - clock) end
  if S.pu and S.pu > clock + (S.pw or 0) then S.pu = clock + (S.pw or 0) end
  if S.q and S.q.he > clock then S.q.he, S.q.rs = clock, clock + S.q.rs - S.q.he end
  if S.fr and S.fr > clock then S.fr = clock end
  if S.mt then S.mt = min(S.mt, clock + hold(S.mi)) end
  if S.wt and S.wt + S.wl < clock then S.wc, S.wl, S.wt = nil, nil, nil end
  S.f, S.e = S.f or {}, S.e or {}
  if S.pr == 2 and S.ti ~= me and (S.tl or 0) + lease < clock then S.pr, S.ti = 1, nil end
  return of_others(S.f), of_others(S.e)
end

-- Whoever has starts reserved ahead must not use them in a pause.
local function tell_paused(n, S)
  for id, ends in pairs(S.r or {}) do
    if id ~= me and ends > clock then redis.pcall('PUBLISH', call.wake .. id, 'paused ' .. KEYS[n]) end
  end
  S.r = nil
end

-- What a process remembers holds where the record is behind: after a flush, after a failover.
local function raise(n, S, a)
  local floor_ = a.fl
  if not floor_ or (S.fg or 0) ~= (a.fg or 0) and not a.new then return end
  -- The process's idea of this clock; where it is far off, the clock is another than its instants were read from.
  local by = a.now and math.abs(clock - a.now) > 1000000 and clock - a.now or 0
  local function on(at) return at and at + by end
  local raised = later(S, 'v', on(floor_.v))
  raised = later(S, 'w', on(floor_.w)) or raised
  raised = later(S, 'l', on(floor_.l)) or raised
  if floor_.pu and floor_.pu + by > clock and later(S, 'pu', on(floor_.pu)) then
    S.pr, S.pn, raised = floor_.pr or 1, max(S.pn or 0, floor_.pn or 0), true
    S.pw = max(S.pw or 0, S.pu - clock)
    tell_paused(n, S)
  end
  local all = a.hv
  if all then
    local other = foreign(S, a)
    local stricter = all.b and (all.i > (S.i or 0) or all.i == S.i and (all.cn or 0) < (S.cn or 0))
    if all.b and not other and (S.k ~= all.k or not S.b or stricter) then
      S.k, S.b, S.i, S.cn, S.bv = all.k, all.b, all.i, all.cn, all.bv
    end
    if all.p and not other and (S.k ~= all.k or all.p > (S.p or 0)) then S.k, S.p, S.d, S.s = all.k, all.p, on(all.d), all.s end
    if (all.c or 0) > (S.c or 0) then S.c = all.c end
    if all.q then
      local mine = all.q
      mine.he, mine.rs = on(mine.he), on(mine.rs)
      local grain = S.q and min(1500000, floor(max(S.q.wi or 0, mine.wi or 0) / 2))
      if S.q and math.abs(S.q.rs - mine.rs) <= grain then S.q.re = min(S.q.re, mine.re)
      elseif not S.q or mine.he > S.q.he then S.q = mine end
    end
    if all.log and a.lk and redis.call('LLEN', KEYS[a.lk]) < #all.log then
      redis.call('DEL', KEYS[a.lk])
      for _, at in ipairs(all.log) do redis.call('RPUSH', KEYS[a.lk], string.format('%.0f', min(at + by, clock))) end
    end
    raised = true
  end
  if raised then dirty[n] = true end
end

-- Who has how many places: stored as this process's own word plus what it asked since.
local function own_of(n, places, own, out)
  if not own then return 0 end
  local stored = places[me] and places[me][1] or 0
  local count = max(own, min(stored, own + (out or 0)))
  if count ~= stored then dirty[n] = true end
  places[me] = {count, clock}
  return count
end

local function own_places(n, S, a)
  a.mine, a.guests = own_of(n, S.f, a.own, a.out), own_of(n, S.e, a.og, a.oo)
end

local function load(n, a, born)
  local kept = redis.call('GET', KEYS[n])
  local S = kept and cmsgpack.unpack(kept) or {}
  -- Whether it has expired already or not is all the same.
  if S.x and S.x <= clock then
    kept, S = false, {fg = S.fg, k = S.k == 'p' and 'p' or nil, s = S.k == 'p' and S.s or nil}
  end
  a.new = not kept
  a.others, a.strangers = live(S)
  if not kept and born then
    -- The store has lost its state: as after a start that used up the whole burst.
    S.v, S.w, S.l = born + (a.i or 0) * ((a.bu or 1) - 1), born + (a.to or 0), born
  end
  scopes[n] = S
  raise(n, S, a)
  return S
end

local function save(n, S, a)
  local till = clock
  local function lasts(at) if at > till then till = at end end
  local function recovers(at, interval) lasts(at + interval + credit(interval)) end
  if (S.mt or 0) <= clock then S.mi, S.mt = nil, nil else lasts(S.mt) end
  if S.v then recovers(S.v, max(a.i or 0, S.mi or 0)) end
  if S.w then recovers(S.w, max(S.i or 0, a.fi or 0, (S.s or 0) * 1000, S.c or 0)) end
  if S.pu then lasts(S.pu) end
  if S.b or S.c or (S.pr or 0) > 0 or (S.pn or 0) > 0 then lasts(max(S.l or clock, S.pu or 0) + KEPT) end
  if S.p then lasts((S.d or clock) + S.p * 100000) end
  if S.q then lasts(S.q.rs + (S.q.wi or 0)) end
  if S.n then lasts((S.n.at or clock) + HOUR) end
  for _, window in ipairs(a.win or {}) do till = max(till, (S.l or clock) + window[2]) end
  if S.wl then lasts((S.l or clock) + S.wl) end
  for id, ends in pairs(S.r or {}) do if ends <= clock then S.r[id] = nil end end
  if S.r and next(S.r) == nil then S.r = nil end
  local places, guests = S.f, S.e
  local function held(of)
    for id, place in pairs(of) do
      if place[1] == 0 then of[id] = nil else lasts(place[2] + lease) end
    end
    return next(of) and of
  end
  S.f, S.e = held(S.f) or nil, held(S.e) or nil
  if S.o and #S.o == 0 then S.o, S.om = nil, nil end
  S.x = max(S.x or 0, till)
  local bytes = cmsgpack.pack(S)
  local expires = string.format('%.0f', floor(min(max(S.x - clock, 0), 2 * KEPT) / 1000) + 60001)
  redis.call('SET', KEYS[n], bytes, 'PX', expires)
  if logs[n] and logs[n].pushed then redis.call('PEXPIRE', KEYS[a.lk], expires) end
  S.f, S.e = places, guests
  return bytes
end

local function wake(n, S, most)
  if not S.o then return end
  for at, id in ipairs(S.o) do
    if at > most then break end
    if id ~= me then redis.pcall('PUBLISH', call.wake .. id, KEYS[n]) end
  end
end

-- The windows' log: a list beside the record, one entry a start.
local function nth_last(n, a, nth)
  local log = logs[n]
  if not log then
    log = {len = redis.call('LLEN', KEYS[a.lk]), ahead = {}, seen = {}}
    logs[n] = log
  end
  if nth <= #log.ahead then return log.ahead[#log.ahead - nth + 1] end
  nth = nth - #log.ahead
  if nth > log.len then return nil end
  if not log.seen[nth] then log.seen[nth] = min(tonumber(redis.call('LINDEX', KEYS[a.lk], -nth)), clock + 1000000) end
  return log.seen[nth]
end

local function log_start(n, S, a, at, cost)
  local last = nth_last(n, a, 1)
  if last and last > at then at = last end
  local most, longest = 0, 0
  for _, window in ipairs(a.win) do most, longest = max(most, window[1]), max(longest, window[2]) end
  -- Others' windows may reach further back.
  if most >= (S.wc or 0) or longest >= (S.wl or 0) then S.wt = at end
  S.wc, S.wl = max(most, S.wc or 0), max(longest, S.wl or 0)
  for _ = 1, min(cost, S.wc) do table.insert(logs[n].ahead, at) end
  logs[n].most = S.wc
end

local function save_log(n, a)
  local log = logs[n]
  if not log or #log.ahead == 0 then return end
  for _, at in ipairs(log.ahead) do redis.call('RPUSH', KEYS[a.lk], string.format('%.0f', at)) end
  redis.call('LTRIM', KEYS[a.lk], -log.most, -1)
  log.pushed = true
end

local function learned(S, a, at)
  if not a.k then return 0 end
  if S.k ~= a.k then return a.fi or 0 end
  if a.k == 'p' then return (S.s or 0) * 1000 end
  local interval = S.i or a.fi or 0
  if a.ag and a.ag.v == S.bv and S.l and at - S.l >= HOUR then interval = a.ag.i end
  -- Whoever learned it, this member never goes faster than its own floor.
  return max(interval, a.pf or 0)
end

-- What was learned of it, of a new scope, or less what its age takes from it: nothing where the policy has no say.
local function concurrency(S, a, at)
  if not a.k or S.k ~= a.k then return a.fc end
  if a.ag and a.ag.v == S.bv and S.l and at - S.l >= HOUR then return a.ag.cn end
  return S.cn or a.fc
end

local function flying(a) return a.mine + a.others + a.guests + a.strangers end

-- A start that is reserved ahead holds a place which it does not use yet: half of the learned ones are left to others.
local function spares(S, a)
  local most = concurrency(S, a, clock)
  return not most or 2 * flying(a) < most
end

local function quota_earliest(S, at, cost)
  local q = S.q
  if at >= q.rs then return 0 end
  if q.re < max(min(cost, q.li or cost), 1) then return q.rs end
  local since = max(S.l or 0, q.he)
  local left = max(0, q.rs - since)
  local spread
  if q.li then
    local ahead = not q.wi or q.re * q.wi < q.li * left
    spread = q.re * 5 <= q.li and ahead
  else
    spread = q.re <= 5
  end
  if not spread then return 0 end
  return min(since + floor(left / (q.re + 1)), q.rs)
end

-- The latest clock of a scope, whose it is, and since when all let start.
local function check(n, S, a, at, cost)
  local till, why, more, since = 0, nil, nil, 0
  local function bind(free, whose, what)
    if free > since then since = free end
    if free > at and free > till then till, why, more = free, whose, what end
  end
  if a.part ~= 'l' then
    if a.i and a.i > 0 then bind(S.v and S.v + a.i - a.i * (a.bu - 1) or 0, 'i') end
    local slowest = strictest(S)
    if slowest > (a.i or 0) and S.v then bind(S.v + slowest, 'i', slowest) end
    if a.win then
      local free, which
      for w, window in ipairs(a.win) do
        local blocking = nth_last(n, a, max(0, window[1] - cost) + 1)
        if blocking and (not free or blocking + window[2] > free) then free, which = blocking + window[2], w end
      end
      if free then bind(free, 'w', which - 1) end
    end
    local taken = a.mine + a.others
    if a.m and taken > 0 and taken + cost > a.m then bind(FAR, 'f') end
  end
  local most = concurrency(S, a, at)
  if most and flying(a) >= most then bind(FAR, 'n', most) end
  local pace = learned(S, a, at)
  if pace > 0 and S.w then bind(S.w + pace - (a.to or 0), 'p', pace) end
  if (S.c or 0) > 0 and S.w then bind(S.w + S.c, 'c', S.c) end
  if S.pu then bind(S.pu, 'z') end
  if S.pr == 2 then bind(FAR, 'a') end
  if S.q then bind(quota_earliest(S, at, cost), 'q', S.q.re) end
  return till, why, more, since
end

-- When this member's turn comes: each that waits longer has a step to take its own.
local function turn(S, a, since)
  if not S.o then return 0 end
  local ahead = 0
  for _, id in ipairs(S.o) do
    if id == me then break end
    ahead = ahead + 1
  end
  if ahead == 0 then return 0 end
  local pace = max(a.i or 0, strictest(S), learned(S, a, clock), S.c or 0)
  local step = pace > 0 and min(max(floor(pace / 4), 5000), 25000) or 25000
  return max(since, S.fr or 0) + ahead * step
end

local function come_to_wait(n, S)
  S.o = S.o or {}
  for _, id in ipairs(S.o) do if id == me then return end end
  if #S.o >= 64 then return end
  table.insert(S.o, me)
  dirty[n] = true
end

-- Who starts leaves the order; those it passed keep their turns once, for they may only have been late, and then lose them.
local function leave_order(S)
  if not S.o then return end
  local order, passed, missed, gone = {}, true, {}, S.om or {}
  for _, id in ipairs(S.o) do
    if id == me then
      passed = false
    elseif not passed then
      table.insert(order, id)
      missed[id] = gone[id]
    elseif not gone[id] then
      table.insert(order, id)
      missed[id] = 1
    end
  end
  S.o, S.om = order, next(missed) and missed or nil
end

local function drain(S, at)
  local steps = floor(max(0, at - (S.d or 0)) / 100000)
  if steps >= (S.p or 0) then S.p, S.d = 0, at else S.p, S.d = S.p - steps, S.d + steps * 100000 end
end

local function space(S, field, at, due, interval, cost)
  due = min(max(due, at - credit(interval)), at)
  local from = max(S[field] and S[field] + interval or due, due)
  S[field] = from + interval * (cost - 1)
  return max(0, at - from)
end

local function charge(n, S, a, at, cost, asked, due)
  local late
  if a.ag and a.ag.v == S.bv and S.k == a.k and S.l and at - S.l >= HOUR then
    S.b, S.i, S.cn, S.bv = a.ag.b, a.ag.i, a.ag.cn, a.ag.nv
  end
  if a.part ~= 'l' then
    if a.i and a.i > 0 then
      local back = space(S, 'v', at, due, a.i, cost)
      late = max(0, usable_late(a.i) - back)
    elseif strictest(S) > 0 then
      -- Those that are spaced have their gap after this start as well.
      S.v, late = max(S.v or 0, at), usable_late(strictest(S))
    end
    if a.win then log_start(n, S, a, at, cost) end
    a.mine = a.mine + cost
    S.f[me] = {a.mine, clock}
  else
    a.guests = a.guests + 1
    S.e[me] = {a.guests, clock}
  end
  local back = space(S, 'w', at, due, max(learned(S, a, at), S.c or 0), cost)
  if a.k == 'p' and not foreign(S, a) then
    if S.k ~= 'p' then S.k, S.p, S.d, S.b, S.i, S.cn, S.bv = 'p', 0, 0, nil, nil, nil, nil end
    local booked = min(max(asked, S.l or 0), at)
    drain(S, booked)
    S.s = min(20 * (1 + floor(S.p / 10)), 1200)
    S.p = min(S.p + 1, 590)
  end
  if a.k and S.k == a.k then S.kt = max(S.kt or 0, at) end
  local pace = max(learned(S, a, at), S.c or 0)
  if pace > 0 then
    local usable = max(0, usable_late(pace) - back)
    late = late and min(late, usable) or usable
  end
  S.l = max(S.l or 0, at)
  if S.q then
    local q = S.q
    if at >= q.rs and q.li and q.wi and q.wi > 0 and at < q.rs + q.wi then q.he, q.rs, q.re = q.rs, q.rs + q.wi, q.li end
    if at < q.rs then q.re = max(0, q.re - cost) end
  end
  S.hi, S.mf = max(a.i or 0, strictest(S), pace), a.m
  local trial = S.pr == 1
  if trial then S.pr, S.ti, S.ts, S.tl = 2, me, at, clock end
  dirty[n] = true
  return trial, late
end

local function ask(at, first)
  local till, who, why, more = 0
  for n, a in ipairs(call.sc) do
    local S = scopes[n]
    local free, whose, what, since = check(n, S, a, at, call.cost)
    if free <= at and first then
      local own = turn(S, a, since)
      if own > at then free, whose = own, 'o' end
    end
    if free > at and first then a.waits = true end
    if free > till and free > at then till, who, why, more = free, n - 1, whose, what end
  end
  return till, who, why, more
end

local function charge_all(at, asked, due)
  local trials, late = 0, nil
  for n, a in ipairs(call.sc) do
    local trial, usable = charge(n, scopes[n], a, at, call.cost, asked, due)
    if trial then trials = trials + 2 ^ (n - 1) end
    if usable then late = late and min(late, usable) or usable end
  end
  return trials, late
end

local answer, unsaved = {t = clock}, false

-- Since when this state is, and whether another was lost before it.
local function generation()
  if not call.gk then return call.born end
  local kept = redis.call('GET', KEYS[call.gk])
  local G = kept and cmsgpack.unpack(kept)
  if not G then
    G = {id = call.rid, born = clock, lost = call.gen and true or false}
  elseif call.gen and call.gen ~= G.id and not G.lost then
    G.lost = true
  else
    answer.g, answer.gb = G.id, G.lost and G.born or nil
    return answer.gb
  end
  redis.call('SET', KEYS[call.gk], cmsgpack.pack(G))
  answer.g, answer.gb = G.id, G.lost and G.born or nil
  return answer.gb
end

local ops = {}

function ops.claim(born)
  for n, a in ipairs(call.sc) do
    local S = load(n, a, born)
    own_places(n, S, a)
    if a.new and a.sure and not a.hv then answer.lost = true end
    if S.b and S.k == a.k and S.l and clock - S.l >= HOUR and not (a.ag and a.ag.v == S.bv) then answer.age = true end
  end
  unsaved = answer.lost or answer.age
  if unsaved then return end
  for n, a in ipairs(call.sc) do
    local S = scopes[n]
    local interval = a.part ~= 'l' and a.i or 0
    -- Written when a quarter of its time is over, not with each look.
    if interval > strictest(S) or interval > 0 and interval == S.mi and S.mt < clock + hold(interval) * 3 / 4 then
      S.mi, S.mt, dirty[n] = interval, clock + hold(interval), true
    end
  end
  local start, due = clock, clock - call.due
  local till, who, why, more = ask(clock, not call.later)
  if why and call.later and till - clock <= call.later and not select(3, ask(till, false)) then
    -- Another slot let it start already, and may be used a little later.
    start, due, why = till, till, nil
  end
  if why then
    answer.till, answer.n, answer.why, answer.more = till, who, why, more
    for n, a in ipairs(call.sc) do if a.waits then come_to_wait(n, scopes[n]) end end
    return
  end
  answer.ok, answer.at = true, start
  answer.tr, answer.late = charge_all(start, clock - call.asked, due)
  for _, S in ipairs(scopes) do leave_order(S) end
  answer.ahead = {}
  local at = start
  for _ = 1, answer.tr == 0 and call.want or 0 do
    for _ = 1, 4 do
      local free, _, bound = ask(at, false)
      if not bound then break end
      at = free
    end
    if at > clock + call.far or select(3, ask(at, false)) then break end
    local spare = true
    for n, a in ipairs(call.sc) do spare = spare and spares(scopes[n], a) end
    if not spare then break end
    local _, late = charge_all(at, clock, at)
    table.insert(answer.ahead, {at, late or -1})
    for _, S in ipairs(scopes) do
      S.r = S.r or {}
      S.r[me] = at + max(late or 0, 50000)
    end
  end
  for n, a in ipairs(call.sc) do save_log(n, a) end
end

function ops.release()
  for n, a in ipairs(call.sc) do
    local S = load(n, a)
    own_places(n, S, a)
    dirty[n] = true
    S.fr = clock
    if a.gone and S.o then
      for at = #S.o, 1, -1 do if S.o[at] == me then table.remove(S.o, at) end end
    end
    if a.tr and S.pr == 2 and a.tr >= (S.pu or 0) then
      S.pr, S.ti = 1, nil
      wake(n, S, 64)
    else
      wake(n, S, 2)
    end
  end
end

-- A start leaves later than it was to: where nobody started since, the next is as far from it as was promised.
function ops.moved()
  local cost = call.cost
  for n, a in ipairs(call.sc) do
    local S = load(n, a)
    own_places(n, S, a)
    if S.l == a.tr then
      -- It left no later than this call came.
      local to = max(min(a.tr + call.by, clock), a.tr)
      local by = to - a.tr
      local function move(field, interval)
        if S[field] then S[field] = max(S[field] + by, to + interval * (cost - 1)) end
      end
      S.l = to
      if a.part ~= 'l' then
        if a.i then move('v', a.i) end
        for nth = 1, a.win and min(cost, redis.call('LLEN', KEYS[a.lk])) or 0 do
          redis.call('LSET', KEYS[a.lk], -nth, string.format('%.0f', max(to, nth_last(n, a, nth))))
        end
      end
      move('w', max(learned(S, a, to), S.c or 0))
      dirty[n] = true
    end
  end
end

-- A sign of life of places that are held long.
function ops.hold()
  for n, a in ipairs(call.sc) do
    local S = load(n, a)
    own_places(n, S, a)
    if S.pr == 2 and S.ti == me then S.tl = clock end
    dirty[n] = true
  end
end

local function hear(S, a)
  local said = a.q
  local before, resets = S.q, said.rs
  local window = said.wi or (before and before.wi and max(before.wi, resets)) or resets
  local ends = clock + resets
  local grain = min(1500000, floor(window / 2))
  local taken = a.others + (S.f[me] and S.f[me][1] or 0)
  local left = said.re
  if before and math.abs(before.rs - ends) <= grain then left = min(left, before.re)
  else left = max(0, left - max(0, taken - 1)) end
  if left == 0 then ends = clock + min(resets, said.hold) end
  S.q = {li = said.li, wi = window, re = left, he = clock, rs = ends}
end

function ops.report()
  answer.stale = {}
  for n, a in ipairs(call.sc) do
    local S = load(n, a)
    own_places(n, S, a)
    for field, value in pairs(a.taught) do a[field] = value end
    if a.new and a.sure then answer.lost = true end
    local out, before = S.pr == 2, max(S.i or 0, (S.s or 0) * 1000)
    if a.wait then
      local wait = a.wait
      if a.grow then
        if (S.pn or 0) > 0 and a.started < (S.pu or 0) then
          wait = nil
        else
          wait = min(a.grow * 2 ^ min(S.pn or 0, 20), max(a.limit, a.grow))
          S.pn = min((S.pn or 0) + 1, 255)
        end
      end
      if wait then
        if (S.pu or 0) <= clock then S.pw = 0 end
        S.pu, S.pr, S.pw = max(S.pu or 0, clock + wait), 1, max(S.pw or 0, wait)
        tell_paused(n, S)
      end
    elseif a.served and a.started >= (S.pu or 0) then
      S.pr, S.pn = 0, 0
    end
    if a.n then
      S.n = S.n or {}
      for field, count in pairs(a.n) do
        if field ~= 'st' and field ~= 'wa' then S.n[field] = (S.n[field] or 0) + count end
      end
      if a.n.st then S.n.st, S.n.wa, S.n.at = a.n.st, a.n.wa, clock end
    end
    if a.q then hear(S, a) end
    if a.un and not foreign(S, a) then
      if S.k ~= 'p' then S.k, S.p, S.d, S.s, S.b, S.i, S.cn, S.bv = 'p', 0, 0, 0, nil, nil, nil, nil end
      drain(S, clock)
      S.p = min(S.p + a.un, 590)
    end
    local faster = false
    if a.nb and not foreign(S, a) then
      if S.bv == a.nb.was then
        faster = a.nb.i < (S.i or a.fi or 0) or (a.nb.cn or 0) > (S.cn or a.fc or 0)
        S.k, S.b, S.i, S.cn, S.bv = a.k, a.nb.b, a.nb.i, a.nb.cn, a.nb.v
        S.p, S.d, S.s, S.kt = nil, nil, nil, clock
      else
        table.insert(answer.stale, n - 1)
      end
    end
    if a.by and (a.wait or a.un or (S.i or 0) > before) then
      S.lo = {by = me, st = a.st, at = clock, from = before, to = max(S.i or 0, (S.s or 0) * 1000)}
    end
    if faster or a.q or out and S.pr ~= 2 then S.fr = clock wake(n, S, 64) end
    dirty[n] = true
  end
end

function ops.declare()
  for n, a in ipairs(call.sc) do
    local S = load(n, a)
    local before = S.c or 0
    S.c = a.c > 0 and a.c or nil
    dirty[n] = true
    if a.c < before then wake(n, S, 64) end
  end
end

function ops.forget()
  for n, a in ipairs(call.sc) do
    local remembered = a.fl
    a.fl = nil
    local S = load(n, a)
    for _, field in ipairs({'k', 'i', 'cn', 'b', 'bv', 'p', 'd', 's', 'pu', 'pr', 'pn', 'pw', 'ti', 'ts', 'tl', 'q', 'n', 'lo'}) do
      S[field] = nil
    end
    S.fg, S.fr = (S.fg or 0) + 1, clock
    -- It was forgotten while the store was out of reach: what was learned since is not.
    if a.hv then
      a.fl, a.fg = remembered, S.fg
      raise(n, S, a)
    end
    dirty[n] = true
    wake(n, S, 64)
  end
end

ops[call.op](generation())
answer.s = {}
for n, a in ipairs(call.sc) do
  local S = scopes[n]
  local bytes = dirty[n] and not unsaved and save(n, S, a)
  if not bytes then
    if next(S.f) == nil then S.f = nil end
    if next(S.e) == nil then S.e = nil end
    S.x = S.x or 0
    bytes = cmsgpack.pack(S)
  end
  local log
  if a.lk and logs[n] then
    -- At most so many entries, each for as many starts as the later of them.
    local len = redis.call('LLEN', KEYS[a.lk])
    local each = max(1, math.ceil(len / 32))
    log = {}
    for at = len, 1, -each do
      table.insert(log, 1, {tonumber(redis.call('LINDEX', KEYS[a.lk], at - 1)), min(each, at)})
    end
  end
  answer.s[n] = {s = bytes, log = log, o = a.others, g = a.strangers}
end
return cmsgpack.pack(answer)
