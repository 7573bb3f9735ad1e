//! An answer's body, and the place in flight that lasts as long as it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::state::Place;

pin_project! {
    /// The body of an answer: of the service inside, or a refusal's few bytes.
    ///
    /// The place in flight is given back at the body's end, at its first error, or when it is dropped: written or
    /// abandoned.
    pub struct GuardBody<R> {
        #[pin]
        kind: Kind<R>,
    }
}

pin_project! {
    #[project = KindNow]
    enum Kind<R> {
        Served { #[pin] body: R, place: Option<Place> },
        Refused { bytes: Option<Bytes> },
    }
}

impl<R: Body<Data = Bytes>> GuardBody<R> {
    /// Of a body that is over already the place is given back at once.
    pub(super) fn served(body: R, place: Option<Place>) -> Self {
        let place = place.filter(|_| !body.is_end_stream());
        Self { kind: Kind::Served { body, place } }
    }

    pub(super) fn refused(bytes: Bytes) -> Self {
        Self { kind: Kind::Refused { bytes: Some(bytes).filter(|bytes| !bytes.is_empty()) } }
    }
}

impl<R: Body<Data = Bytes>> Body for GuardBody<R> {
    type Data = Bytes;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, R::Error>>> {
        match self.project().kind.project() {
            KindNow::Served { body, place } => {
                let polled = body.poll_frame(cx);
                if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
                    *place = None;
                }
                polled
            }
            KindNow::Refused { bytes } => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Served { body, .. } => body.is_end_stream(),
            Kind::Refused { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Served { body, .. } => body.size_hint(),
            Kind::Refused { bytes } => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}

impl<R> fmt::Debug for GuardBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.kind {
            Kind::Served { .. } => "GuardBody(served)",
            Kind::Refused { .. } => "GuardBody(refused)",
        })
    }
}
