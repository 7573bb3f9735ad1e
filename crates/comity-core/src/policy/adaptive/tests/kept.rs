//! The state as bytes.

use super::*;
use crate::policy::{LEARNED_BYTES, Learned};

#[test]
fn it_is_small() {
    assert!(size_of::<Adaptive>() <= 128, "{} bytes", size_of::<Adaptive>());
    const { assert!(BYTES < LEARNED_BYTES) };
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn what_is_packed_is_unpacked_the_same(seed in any::<u64>()) {
        live(seed, 200, |life| {
            let mut state = State::unpack(&life.adaptive);
            assert_eq!(state.pack(), life.adaptive);
            // And what was never packed, as near as it matters.
            let (now, fact) = life.next_fact();
            state.taught(now, &fact, &life.settings);
            life.adaptive = state.pack();
            let again = State::unpack(&life.adaptive);
            let [pace, kept] = [&state, &again].map(|state| Duration::from_nanos(state.rate.interval));
            assert!(is_about(pace, kept) && kept >= pace, "{pace:?} is kept as {kept:?}");
            assert_eq!(state.concurrency.most, again.concurrency.most);
            assert_eq!((state.rate.phase, state.rate.is_refused()), (again.rate.phase, again.rate.is_refused()));
            assert_eq!((state.octaves, state.strain), (again.octaves, again.strain));
        });
    }

    #[test]
    fn what_is_written_is_read(seed in any::<u64>()) {
        live(seed, 200, |life| {
            let learned = Learned::Adaptive(life.adaptive);
            let bytes = learned.to_bytes();
            assert_eq!(Learned::from_bytes(&bytes), Some(learned));
            assert_eq!(Learned::from_bytes(&bytes[..bytes.len() - 1]), None);
        });
    }

    /// What a store made of it is refused, or does no harm.
    #[test]
    fn bytes_that_were_changed_do_no_harm(seed in any::<u64>()) {
        let mut life = lived(seed);
        let settings = life.settings;
        let dice = &mut life.dice;
        for flips in 0..60 {
            let mut bytes = life.adaptive.bytes;
            if flips == 0 {
                bytes.fill_with(|| dice.below(256) as u8);
            }
            for _ in 0..flips {
                bytes[dice.below(BYTES as u64) as usize] ^= 1 << dice.below(8);
            }
            let Some(mut read) = Adaptive::read(&mut Reader::new(&bytes)) else { continue };
            prop_assert!(read.in_flight() > 0 && !read.interval().is_zero());
            for _ in 0..60 {
                let (now, fact) = absurd(dice);
                read.taught(now, &fact, &settings);
                prop_assert!(read.in_flight() > 0 && read.interval() >= settings.floor, "{:?}", read.said(now));
            }
        }
    }
}
