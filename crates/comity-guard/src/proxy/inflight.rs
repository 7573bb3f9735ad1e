//! Something held for as long as an answer is being written (behaviour G3).

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

/// Any value that is to be held until the answer's body is written or abandoned, as a request extension.
///
/// [`Forward`](super::Forward) moves it from the request to the body of the answer. An answer that switches protocols
/// has no body: it is given back with the head, and the tunnel has a cap of its own (field case I07).
#[derive(Clone)]
pub struct Inflight(#[expect(dead_code, reason = "it is only held, and dropped")] Arc<dyn Any + Send + Sync>);

impl Inflight {
    /// Holds `token`; it is dropped with the last clone.
    pub fn new(token: impl Any + Send + Sync) -> Self {
        Self(Arc::new(token))
    }
}

impl fmt::Debug for Inflight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inflight")
    }
}

/// A body that drops a token at its end, at its first error, or when it is itself dropped, whichever comes first.
///
/// The end is when the last frame was taken by the server, whose write buffer is small (64 KiB).
#[derive(Debug)]
pub struct Guarded<B, T> {
    body: B,
    token: Option<T>,
}

impl<B: Body, T> Guarded<B, T> {
    /// Holds `token` as long as `body` lasts; of a body that is over already it is dropped at once.
    pub fn new(body: B, token: T) -> Self {
        let token = (!body.is_end_stream()).then_some(token);
        Self { body, token }
    }
}

impl<B: Body + Unpin, T: Unpin> Body for Guarded<B, T> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.token = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Empty, Full};

    use super::*;

    #[tokio::test]
    async fn g3_the_token_goes_with_the_end_of_the_body() {
        let token = Arc::new(());
        let mut body = Guarded::new(Full::new(Bytes::from_static(b"x")), Arc::clone(&token));
        assert!(body.frame().await.is_some());
        assert_eq!(Arc::strong_count(&token), 2, "the last frame may still be in the writer's hands");
        assert!(body.frame().await.is_none());
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn g3_the_token_goes_with_an_abandoned_or_empty_body() {
        let token = Arc::new(());
        let abandoned = Guarded::new(Full::new(Bytes::from_static(b"x")), Arc::clone(&token));
        drop(abandoned);
        let _empty = Guarded::new(Empty::<Bytes>::new(), Arc::clone(&token));
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
