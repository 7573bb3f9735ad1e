//! Errors and answers that do not come make the pace slower for a while; they teach nothing that is remembered (A3).

/// How many times slower the pace is than what was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strain {
    /// In 1/64.
    times: u16,
    /// Served since it last eased.
    served: u8,
}

impl Default for Strain {
    fn default() -> Self {
        Self { times: NONE, served: 0 }
    }
}

impl Strain {
    pub(super) fn of(times: u16, served: u8) -> Self {
        Self { times: times.clamp(NONE, MOST), served: served.min(EASES_EVERY - 1) }
    }

    pub(super) fn parts(self) -> (u16, u8) {
        (self.times, self.served)
    }

    pub(super) fn holds(self) -> bool {
        self.times > NONE
    }

    /// Half as much again.
    pub(super) fn more(&mut self) {
        self.times = (self.times + self.times / 2).min(MOST);
        self.served = 0;
    }

    /// Eases by a quarter with every so many that are served: where one in five fails it stays near nothing, where every other
    /// does it grows.
    pub(super) fn served(&mut self) {
        if self.times == NONE {
            return;
        }
        self.served += 1;
        if self.served >= EASES_EVERY {
            self.served = 0;
            self.times = (self.times - self.times.div_ceil(4)).max(NONE);
        }
    }

    pub(super) fn slower(self, interval: u64) -> u64 {
        interval.saturating_mul(u64::from(self.times)) / u64::from(NONE)
    }

    /// Not past a ceiling.
    pub(super) fn bound(&mut self, interval: u64, ceiling: u64) {
        let most = ceiling.saturating_mul(u64::from(NONE)) / interval.max(1);
        self.times = self.times.min(u16::try_from(most).unwrap_or(MOST)).max(NONE);
    }

    /// Of so many in flight.
    pub(super) fn fewer(self, most: u32) -> u32 {
        (most * u32::from(NONE) / u32::from(self.times)).max(1)
    }
}

const NONE: u16 = 64;
/// 64 times.
const MOST: u16 = 64 * NONE;
const EASES_EVERY: u8 = 2;
