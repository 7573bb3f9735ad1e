//! One notice a host (P12). It has a program to itself: which of tracing's callsites are on is decided for all threads.

#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use comity::{Answer, EventKind, Pacer, Partial, Policy, Profile};
use http::HeaderMap;
use tracing::span;
use url::Url;

#[tokio::test(start_paused = true)]
async fn p12_one_notice_a_host_the_first_time_it_is_delayed() {
    let notices = Notices::default();
    let _guard = tracing::subscriber::set_default(notices.clone());
    let limits = Partial { interval: Some(Duration::from_secs(1)), policy: Some(Policy::Fixed), ..Partial::default() };
    let pacer = Pacer::builder(Profile::Api).template(limits).local();
    let mut events = pacer.events();
    for page in ["a.example/", "b.example/1", "b.example/2", "a.example/", "a.example/", "b.example/"] {
        let permit = pacer.acquire(&Url::parse(&format!("http://{page}")).unwrap()).await.unwrap();
        drop(permit.settle(&Answer::response(200, &HeaderMap::new())));
    }
    let mut told = Vec::new();
    while let Some(event) = events.try_next() {
        if let EventKind::FirstDelay { delay } = event.kind {
            assert!(delay.to_string().contains("interval 1s"), "{delay}");
            told.push(event.host);
        }
    }
    assert_eq!(told, ["b.example", "a.example"]);
    let notices = notices.0.lock().unwrap();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(notices[0].contains("b.example") && notices[1].contains("a.example"), "{notices:?}");
}

/// Takes down what is said at the level of notices.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Notices {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO && metadata.target().starts_with("comity")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
