//! The `metrics` feature (H16).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use comity::{Answer, Ask, NoAnswer, Pacer, Partial, Profile, Settled};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

use crate::support::{fixed, ms, refused, served, url, waiter};

#[tokio::test(start_paused = true)]
async fn h16_what_happens_is_counted_without_a_hosts_name() {
    let counts = Counts::default();
    let _guard = metrics::set_default_local_recorder(&counts);
    let pacer = Pacer::builder(Profile::Api).template(Partial { retries: Some(1), ..fixed(1000) }).local();
    let page = url("http://a.example/");
    let Settled::Retry(again) = refused(pacer.acquire(&page).await.unwrap(), 429, Some("2")) else { panic!() };
    drop(refused(again.await.unwrap(), 503, None));
    served(pacer.acquire(&page).await.unwrap()); // The pause is over for good.
    let mut late = pacer.acquire(&page).await.unwrap();
    served(waiter(&pacer, "http://a.example/").await.await.unwrap().unwrap());
    assert_eq!(late.begin(), comity::Begin::TooLate);
    let _ = late.settle(&Answer::none(NoAnswer::TimedOut));
    assert!(pacer.acquire(Ask::new(&page).queue_timeout(ms(1))).await.is_err());
    let told = counts.0.lock().unwrap();
    let expected = [
        ("comity_give_ups_total why=no_retries_left", 1.0),
        ("comity_late_starts_total", 1.0),
        ("comity_no_answers_total why=timed_out", 1.0),
        ("comity_queue_timeouts_total", 1.0),
        ("comity_refusal_wait_seconds", 2.0),
        ("comity_refusals_total advice=given", 1.0),
        ("comity_refusals_total advice=none", 1.0),
        ("comity_retries_total", 1.0),
        ("comity_starts_total", 5.0),
    ];
    for (name, value) in expected {
        assert_eq!(told.get(name), Some(&value), "{name} in {told:?}");
    }
    assert_eq!(told.len(), expected.len() + 1, "and comity_wait_seconds: {told:?}");
    assert!(!told.keys().any(|name| name.contains("example")), "{told:?}");
}

/// Sums whatever is told, by name and labels.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, f64>>>);

struct Sum(Counts, String);

impl Counts {
    fn sum(&self, key: &Key) -> Arc<Sum> {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        Arc::new(Sum(self.clone(), labels.fold(key.name().to_owned(), |name, label| name + &label)))
    }
}

impl Sum {
    fn add(&self, value: f64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
}

impl CounterFn for Sum {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, _: u64) {}
}

impl HistogramFn for Sum {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.sum(key))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.sum(key))
    }
}
