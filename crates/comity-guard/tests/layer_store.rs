//! The guard over a store that answers late, or is out of reach.

#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use comity_core::guard::Verdict;
use comity_core::time::Instant;
use comity_guard::{Guard, OnStoreFailure, PeerAddress, Rule, Settings, TokenBucket};
use comity_store::guard::{BucketTable, BucketTableSettings, Buckets, Charges, Counts, Taken};
use comity_store::{ReadClock, Standing};
use http::{Request, Response};
use http_body_util::Empty;
use tower::{Layer, ServiceExt, service_fn};

/// A table that answers a second late, and that others are said to share.
struct Distant {
    table: BucketTable,
    lost: Arc<AtomicBool>,
}

impl Buckets for Distant {
    fn clock(&self) -> ReadClock {
        self.table.clock()
    }

    fn take(&self, now: Instant, charges: Charges<'_>) -> Taken {
        let verdict: Verdict = self.table.take_now(now, charges);
        Taken::Later(Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            verdict
        }))
    }

    fn counts(&self) -> Counts {
        self.table.counts()
    }

    fn standing(&self) -> Standing {
        let lost = self.lost.load(Ordering::SeqCst).then(|| (Instant::ZERO, "gone".to_owned()));
        Standing { place: "far away".into(), members: 2, lost, losses: 0 }
    }
}

fn guard(on_store_failure: OnStoreFailure) -> (Guard, Arc<AtomicBool>) {
    let clock: ReadClock = Arc::new(|| Instant::from_millis(1_000));
    let lost = Arc::new(AtomicBool::new(false));
    let table = BucketTable::new(BucketTableSettings::default(), 7, clock);
    let each = Rule::new("each", TokenBucket::rate(1, Duration::from_secs(60), 1).unwrap()).unwrap();
    let settings = Settings { on_store_failure, ..Settings::with([each]) };
    (Guard::over(settings, Arc::new(Distant { table, lost: lost.clone() })).unwrap(), lost)
}

async fn status(guard: &Guard) -> u16 {
    let service =
        service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new())) });
    let mut request = Request::get("/").body(()).unwrap();
    request.extensions_mut().insert(PeerAddress([192, 0, 2, 1].into()));
    guard.layer().layer(service).oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_late_is_awaited_in_flight_and_holds() {
    let (guard, _) = guard(OnStoreFailure::Local);
    assert_eq!(status(&guard).await, 200);
    let asked = status(&guard);
    tokio::pin!(asked);
    let soon = tokio::time::timeout(Duration::from_millis(500), &mut asked).await;
    assert!(soon.is_err() && guard.counted().in_flight == 1);
    assert_eq!((asked.await, guard.counted().in_flight), (429, 0));
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_lost_the_settings_say_what_holds() {
    for (on_store_failure, expected) in [(OnStoreFailure::Local, 429), (OnStoreFailure::Admit, 200)] {
        let (guard, lost) = guard(on_store_failure);
        assert_eq!((status(&guard).await, status(&guard).await), (200, 429));
        lost.store(true, Ordering::SeqCst);
        assert_eq!((status(&guard).await, guard.counted().store_lost), (expected, 1));
        lost.store(false, Ordering::SeqCst);
        assert_eq!((status(&guard).await, guard.counted().store_lost), (429, 1));
    }
}
