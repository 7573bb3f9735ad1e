//! The answer to come.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use comity_core::guard::End;
use http::{Extensions, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::GuardBody;
use crate::state::{Admitted, Refusal};

pin_project! {
    /// The answer to come, of the service inside or of the guard. Dropped, it gives its place in flight back and stops
    /// waiting.
    pub struct GuardFuture<F, T, E> {
        #[pin]
        state: State<F, T, E>,
    }
}

pin_project! {
    #[project = StateNow]
    enum State<F, T, E> {
        // The common way: without a box.
        Called { #[pin] future: F, admitted: Admitted },
        Refused { answer: Option<Refusal> },
        Later { future: Boxed<T, E> },
    }
}

/// The answer of one that waited: what the service said and what it holds, or a refusal.
type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<Waited<T>, E>> + Send>>;

enum Waited<T> {
    Served(T, Admitted),
    Refused(Refusal),
}

impl<F, T, E> GuardFuture<F, T, E> {
    pub(super) fn called(future: F, admitted: Admitted) -> Self {
        Self { state: State::Called { future, admitted } }
    }

    pub(super) fn refused(answer: Refusal) -> Self {
        Self { state: State::Refused { answer: Some(answer) } }
    }

    /// Waits until it is let in, then for the service to be ready.
    pub(super) fn later<S, B>(
        admission: impl Future<Output = Result<Admitted, Refusal>> + Send + 'static,
        mut service: S,
        mut request: Request<B>,
    ) -> Self
    where
        S: Service<Request<B>, Response = T, Error = E> + Send + 'static,
        S::Future: Send,
        B: Send + 'static,
    {
        let future = Box::pin(async move {
            let admitted = match admission.await {
                Ok(admitted) => admitted,
                Err(refusal) => return Ok(Waited::Refused(refusal)),
            };
            poll_fn(|cx| service.poll_ready(cx)).await.inspect_err(|_| admitted.ended(End::Dropped))?;
            admitted.mark(request.extensions_mut());
            let answer = service.call(request).await.inspect_err(|_| admitted.ended(End::Dropped))?;
            Ok(Waited::Served(answer, admitted))
        });
        Self { state: State::Later { future } }
    }
}

impl<F, R, E> Future for GuardFuture<F, Response<R>, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<GuardBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateNow::Called { future, admitted } => {
                let answer = ready!(future.poll(cx));
                Poll::Ready(match answer {
                    Ok(response) => Ok(served(response, admitted)),
                    Err(error) => {
                        admitted.ended(End::Dropped);
                        Err(error)
                    }
                })
            }
            StateNow::Refused { answer } => {
                // A future is not polled again after its answer.
                let answer = answer.take().unwrap_or_default();
                Poll::Ready(Ok(answer.map(GuardBody::refused)))
            }
            StateNow::Later { future } => Poll::Ready(match ready!(future.as_mut().poll(cx)) {
                Ok(Waited::Served(response, mut admitted)) => Ok(served(response, &mut admitted)),
                Ok(Waited::Refused(answer)) => Ok(answer.map(GuardBody::refused)),
                Err(error) => Err(error),
            }),
        }
    }
}

/// An answer that says what is left, and whose body holds the place.
#[inline]
fn served<R: Body<Data = Bytes>>(mut response: Response<R>, admitted: &mut Admitted) -> Response<GuardBody<R>> {
    admitted.ended(if response.status().is_server_error() { End::Dropped } else { End::Served });
    admitted.tell(response.headers_mut());
    admitted.mark(response.extensions_mut());
    let place = admitted.place.take();
    response.map(|body| GuardBody::served(body, place))
}

impl Admitted {
    /// The service has answered or failed.
    fn ended(&self, end: End) {
        if let Some(place) = &self.place {
            place.ended(end);
        }
    }

    /// In a dry run, marks what would have been refused.
    pub(super) fn mark(&self, extensions: &mut Extensions) {
        if let Some(would) = &self.would {
            extensions.insert((**would).clone());
        }
    }
}

impl<F, T, E> fmt::Debug for GuardFuture<F, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::Called { .. } => "GuardFuture(called)",
            State::Refused { .. } => "GuardFuture(refused)",
            State::Later { .. } => "GuardFuture(later)",
        })
    }
}
