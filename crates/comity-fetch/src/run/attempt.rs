//! One attempt: connect, begin, send, settle, keep.

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use comity::{Answer, Begin, NoAnswer, Permit, Settled};
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, Method, Response};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use url::{Host, Url};

use super::job::{Job, Message, RobotsAnswer, Sent, Tag};
use super::robots_answer::robots_answer;
use crate::client::{Client, Failure, FailureKind, Ready, Request, ResponseBody};
use crate::keep::{Exchange, KeepError, Kept, Outcome, Redirect, Timestamp, Validators, Waited};
use crate::list::List;
use crate::request::Requests;
use crate::robots::{self, Robots};

/// What every attempt needs.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) requests: Requests,
    pub(super) kept: Kept,
    pub(super) list: List,
    pub(super) max_time: Option<Duration>,
    pub(super) max_redirects: usize,
    pub(super) product_token: String,
    pub(super) if_newer: bool,
    /// The longest without a byte: before the headers, and between pieces of the body.
    pub(super) idle_time: Duration,
    /// Whether a body that is being read holds its host's place in flight.
    pub(super) bodies_hold_places: bool,
}

/// The wall clock's date.
pub(super) fn now() -> Timestamp {
    Timestamp::from_millis(comity::clock::wall().as_micros() / 1000)
}

/// Where attempts report.
pub(super) type Reports = mpsc::UnboundedSender<Message>;

/// Makes one attempt with a permit, and reports once what it came to.
pub(super) async fn attempt(context: Arc<Context>, job: Box<Job>, permit: Permit, reports: Reports) {
    let (message, rest) = made(&context, job, permit).await;
    // The run may have ended meanwhile: then nobody reads it.
    let _ = reports.send(message);
    if let Some(rest) = rest
        && let Err(error) = rest.keep(&context).await
    {
        let _ = reports.send(Message::Fatal(error));
    }
}

async fn made(context: &Context, mut job: Box<Job>, permit: Permit) -> (Message, Option<Rest>) {
    job.attempts += 1;
    if let Some(delay) = permit.waited_for() {
        let waited = permit.waited();
        if !waited.is_zero() {
            let ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            job.waits.push(Waited { ms, scope: delay.scope, because: delay.because.to_string() });
        }
    }
    let deadline = context.max_time.map(Deadline::after);
    let request = match build(context, &job) {
        Ok(request) => request,
        Err(reason) => {
            // Nothing is sent: the permit is cancelled.
            drop(permit);
            let mut record = job.record(Outcome::Skipped, now());
            record.reason = Some(reason);
            return (note(context, job, record, Sent::No), None);
        }
    };
    let request_headers = request.headers().clone();
    let (permit, answer) = match send(context, &job.url, permit, request, deadline.as_ref()).await {
        Sending::TooLate(permit) => {
            job.attempts -= 1;
            let place = permit.requeue();
            return (Message::Requeued { job, place, sent: Sent::No }, None);
        }
        Sending::Ended(permit, answer) => (permit, answer),
    };
    match answer {
        Ok(response) => {
            let answer = Answer::response(response.status().as_u16(), response.headers());
            let (settled, place) = if context.bodies_hold_places {
                permit.settle_holding(&answer)
            } else {
                (permit.settle(&answer), None)
            };
            // A redirect gives its place up before its next hop queues (D06): `place` ends with this call.
            let told = answered(context, job, response, request_headers, settled, deadline).await;
            drop(place);
            told
        }
        Err(failure) => {
            let settled = permit.settle(&Answer::none(why(&failure)));
            (unanswered(context, job, &failure, &settled), None)
        }
    }
}

/// A point in time the attempt must not outlast.
pub(super) struct Deadline {
    span: Duration,
    timer: tokio::time::Instant,
}

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "an attempt's time limit begins here")]
    fn after(span: Duration) -> Self {
        Self { span, timer: tokio::time::Instant::now() + span }
    }

    pub(super) async fn limit<T>(deadline: Option<&Self>, work: impl Future<Output = T>) -> Result<T, Duration> {
        match deadline {
            None => Ok(work.await),
            Some(deadline) => tokio::time::timeout_at(deadline.timer, work).await.map_err(|_| deadline.span),
        }
    }
}

enum Sending {
    /// The permit may not be used any more.
    TooLate(Permit),
    Ended(Permit, Result<Response<ResponseBody>, Failure>),
}

/// Connects, asks a last time whether the permit holds, and sends.
async fn send(
    context: &Context,
    url: &Url,
    mut permit: Permit,
    mut request: Request,
    deadline: Option<&Deadline>,
) -> Sending {
    let mut fresh = false;
    loop {
        let ready = match Deadline::limit(deadline, context.client.ready(url)).await {
            Ok(Ok(ready)) => ready,
            Ok(Err(failure)) => return Sending::Ended(permit, Err(failure)),
            Err(span) => return Sending::Ended(permit, Err(timed_out(url, span))),
        };
        let reused = ready.reused();
        if permit.begin() == Begin::TooLate {
            drop(ready);
            return Sending::TooLate(permit);
        }
        let sending = tokio::time::timeout(context.idle_time, Ready::send(ready, request));
        let answer = match Deadline::limit(deadline, sending).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(silent(url, context.idle_time)),
            Err(span) => Err(timed_out(url, span)),
        };
        match answer {
            // An idle connection was closed by the other side: nothing was sent, so the same start takes another.
            Err(mut failure) if reused && !fresh && failure.not_sent() => match failure.take_request() {
                Some(back) => {
                    request = back;
                    fresh = true;
                }
                None => return Sending::Ended(permit, Err(failure)),
            },
            answer => return Sending::Ended(permit, answer),
        }
    }
}

pub(super) fn timed_out(url: &Url, span: Duration) -> Failure {
    let host = url.host_str().unwrap_or_default();
    Failure::timed_out(format!("{host}: no whole answer within the {span:?} of --max-time"))
}

fn silent(url: &Url, span: Duration) -> Failure {
    let host = url.host_str().unwrap_or_default();
    Failure::timed_out(format!("{host}: nothing received for the {span:?} of --idle-time"))
}

fn build(context: &Context, job: &Job) -> Result<Request, String> {
    let made = match job.tag {
        Tag::Robots(_) => context.requests.robots(&job.url),
        Tag::Page(index) => {
            let extra = context.list.extra(index);
            let validators = validators(context, job);
            context.requests.build(&job.url, extra, validators.as_ref(), &job.first, Some(&job.method))
        }
    };
    made.map_err(|error| error.to_string())
}

fn validators(context: &Context, job: &Job) -> Option<Validators> {
    if context.if_newer && job.redirects.is_empty() {
        context.kept.validators(&job.first, job.variant.as_deref())
    } else {
        None
    }
}

/// What the pace learns from a failure.
fn why(failure: &Failure) -> NoAnswer {
    match failure.kind() {
        FailureKind::Resolve => NoAnswer::Resolve,
        FailureKind::Connect | FailureKind::Tls => NoAnswer::Connect,
        FailureKind::TimedOut => NoAnswer::TimedOut,
        _ => NoAnswer::Reset,
    }
}

fn unanswered(context: &Context, job: Box<Job>, failure: &Failure, settled: &Settled) -> Message {
    if let Settled::Requeued(place) = settled {
        return Message::Requeued { job, place: Some(*place), sent: Sent::NoAnswer };
    }
    if let Tag::Robots(_) = job.tag {
        let answer = RobotsAnswer::NotNow(failure.to_string());
        return Message::Robots { job, answer, sent: Sent::NoAnswer };
    }
    let mut record = job.record(Outcome::Failed, now());
    record.error = Some(failure.to_string());
    note(context, job, record, Sent::NoAnswer)
}

fn note(context: &Context, job: Box<Job>, record: crate::keep::Record, sent: Sent) -> Message {
    if let Tag::Robots(_) = job.tag {
        let answer = RobotsAnswer::NotNow(record.reason.or(record.error).unwrap_or_default());
        return Message::Robots { job, answer, sent };
    }
    match context.kept.note(record) {
        Ok(record) => Message::Done { job, record: Box::new(record), sent },
        Err(error) => Message::Fatal(error),
    }
}

/// The body of an answer that is not the last for its URL: read after the news of it is on its way.
struct Rest {
    url: Url,
    method: Method,
    request_headers: HeaderMap,
    head: http::response::Parts,
    body: ResponseBody,
    deadline: Option<Deadline>,
}

async fn answered(
    context: &Context,
    mut job: Box<Job>,
    response: Response<ResponseBody>,
    request_headers: HeaderMap,
    settled: Settled,
    deadline: Option<Deadline>,
) -> (Message, Option<Rest>) {
    let (head, body) = response.into_parts();
    let status = head.status;
    context.requests.learn_cookies(&job.url, &head.headers);
    let sent = match (&settled, status.as_u16()) {
        (Settled::Requeued(_) | Settled::GiveUp(_), _) => Sent::Refused,
        (_, 400..) => Sent::Error,
        _ => Sent::Answered,
    };
    // Some servers know no HEAD: the link is asked for with GET before it is called broken.
    if job.method == Method::HEAD && matches!(status.as_u16(), 405 | 501) && matches!(settled, Settled::Done) {
        let to = job.url.clone();
        return (Message::Hop { job, method: Method::GET, to }, None);
    }
    let next = match head.headers.get(LOCATION) {
        Some(location) if status.is_redirection() && !matches!(settled, Settled::Requeued(_)) => {
            context.requests.redirect(&job.method, status, location, &job.url)
        }
        _ => Ok(None),
    };
    let (url, method) = (job.url.clone(), job.method.clone());
    let message = match (&settled, next) {
        (Settled::Requeued(place), _) => Message::Requeued { job, place: Some(*place), sent },
        (_, Err(error)) => return (failed(context, job, status.as_u16(), error.to_string(), sent), None),
        (_, Ok(Some((_, to)))) if leads_home(&job.first, &to) => {
            let reason = format!("a redirect from another host to this machine is not followed: {to}");
            return (failed(context, job, status.as_u16(), reason, sent), None);
        }
        (_, Ok(Some((method, to)))) => {
            let robots = matches!(job.tag, Tag::Robots(_));
            if job.redirects.len() >= if robots { robots::MAX_REDIRECTS } else { context.max_redirects } {
                return (too_many_redirects(context, job, status.as_u16(), robots, sent), None);
            }
            job.redirects.push(Redirect { status: status.as_u16(), to: to.to_string() });
            Message::Hop { job, method, to }
        }
        (_, Ok(None)) => {
            return (last_answer(context, job, &request_headers, head, body, &settled, sent, deadline).await, None);
        }
    };
    (message, Some(Rest { url, method, request_headers, head, body, deadline }))
}

/// Whether a redirect would lead a stranger's link to the machine we run on, in whatever spelling.
fn leads_home(first: &Url, to: &Url) -> bool {
    let v4 = |address: Ipv4Addr| address.is_loopback() || address.octets()[0] == 0;
    let is_home = |url: &Url| match url.host() {
        Some(Host::Ipv4(address)) => v4(address),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.is_unspecified() || address.to_ipv4_mapped().is_some_and(v4)
        }
        Some(Host::Domain(name)) => comity::Target::host(name).is_loopback(),
        None => false,
    };
    is_home(to) && !is_home(first)
}

fn too_many_redirects(context: &Context, job: Box<Job>, status: u16, robots: bool, sent: Sent) -> Message {
    if robots {
        // RFC 9309 §2.3.1.2: as if there were none.
        let answer = RobotsAnswer::Rules(Robots::allow_all(), robots::lifetime(None));
        return Message::Robots { job, answer, sent };
    }
    failed(context, job, status, format!("more than {} redirects", context.max_redirects), sent)
}

#[expect(clippy::too_many_arguments, reason = "one answer in its parts, used here alone")]
async fn last_answer(
    context: &Context,
    job: Box<Job>,
    request_headers: &HeaderMap,
    head: http::response::Parts,
    body: ResponseBody,
    settled: &Settled,
    sent: Sent,
    deadline: Option<Deadline>,
) -> Message {
    let status = head.status.as_u16();
    let deadline = deadline.as_ref();
    if let Tag::Robots(_) = job.tag {
        return robots_answer(context, job, status, &head.headers, body, sent, deadline).await;
    }
    let mut kept = context.kept.begin(&exchange(&job.url, &job.method, request_headers, &head));
    let broken =
        match Deadline::limit(deadline, read(body, (&job.url, context.idle_time), |bytes| kept.write(bytes))).await {
            Ok(Ok(())) => None,
            Ok(Err(Broken::Keep(error))) => return Message::Fatal(error),
            Ok(Err(Broken::Body(failure))) => Some(failure),
            Err(span) => Some(timed_out(&job.url, span)),
        };
    if let Some(failure) = broken {
        return Message::Broken { job, failure };
    }
    let outcome = match settled {
        Settled::GiveUp(_) => Outcome::Refused,
        _ if status != 304 => Outcome::Fetched,
        _ if validators(context, &job).is_some() => Outcome::Unchanged,
        // Somebody who asks with conditions of their own gets the answer they asked for.
        _ if request_headers.contains_key(IF_NONE_MATCH) || request_headers.contains_key(IF_MODIFIED_SINCE) => {
            Outcome::Fetched
        }
        _ => return failed(context, job, status, "304, but nothing was asked that it could confirm".to_owned(), sent),
    };
    let mut record = job.record(outcome, now());
    record.status = Some(status);
    record.final_url = Some(job.url.to_string());
    if let Settled::GiveUp(why) = settled {
        record.reason = Some(format!("{status}: {why}"));
    }
    let finished = if kept.is_large() {
        match tokio::task::spawn_blocking(move || kept.finish(record)).await {
            Ok(finished) => finished,
            Err(stopped) => std::panic::resume_unwind(stopped.into_panic()),
        }
    } else {
        kept.finish(record)
    };
    match finished {
        Ok(record) => Message::Done { job, record: Box::new(record), sent },
        Err(error) => Message::Fatal(error),
    }
}

fn failed(context: &Context, job: Box<Job>, status: u16, reason: String, sent: Sent) -> Message {
    let mut record = job.record(Outcome::Failed, now());
    record.status = Some(status);
    record.final_url = Some(job.url.to_string());
    record.error = Some(reason);
    note(context, job, record, sent)
}

fn exchange<'a>(
    url: &'a Url,
    method: &'a Method,
    request_headers: &'a HeaderMap,
    head: &'a http::response::Parts,
) -> Exchange<'a> {
    Exchange {
        url,
        method,
        request_headers,
        version: head.version,
        status: head.status,
        reason: None,
        headers: &head.headers,
        peer: None,
        at: now(),
    }
}

impl Rest {
    /// Keeps a redirect or a refused answer where an output wants it, and reads a short body so that its connection serves
    /// again.
    async fn keep(self, context: &Context) -> Result<(), KeepError> {
        let mut kept = context.kept.begin(&exchange(&self.url, &self.method, &self.request_headers, &self.head));
        let mut room = LONGEST_HOP_BODY;
        let reading = read(self.body, (&self.url, context.idle_time), |bytes| {
            room = room.saturating_sub(bytes.len());
            if room == 0 { Err(Enough::Room) } else { kept.write(bytes).map_err(Enough::Keep) }
        });
        match tokio::time::timeout(HOP_BODY_TIME, Deadline::limit(self.deadline.as_ref(), reading)).await {
            Ok(Ok(Ok(()))) => kept.hop(),
            Ok(Ok(Err(Broken::Keep(Enough::Keep(error))))) => Err(error),
            // Too long, too slow or broken: not worth keeping, and its connection is closed.
            _ => Ok(()),
        }
    }
}

enum Enough {
    Room,
    Keep(KeepError),
}

pub(super) enum Broken<E> {
    Keep(E),
    Body(Failure),
}

pub(super) async fn read<E>(
    mut body: ResponseBody,
    idle: (&Url, Duration),
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Broken<E>> {
    loop {
        let next = tokio::time::timeout(idle.1, body.frame()).await;
        let Some(frame) = next.map_err(|_| Broken::Body(silent(idle.0, idle.1)))? else { return Ok(()) };
        if let Ok(bytes) = frame.map_err(Broken::Body)?.into_data() {
            each(&bytes).map_err(Broken::Keep)?;
        }
    }
}

/// A redirect's or refusal's body that is longer is not kept.
const LONGEST_HOP_BODY: usize = 64 * 1024;
/// Nor one that takes longer.
const HOP_BODY_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_does_not_lead_home_in_any_spelling() {
        let url = |text: &str| Url::parse(text).unwrap();
        let stranger = url("http://a.example/");
        for home in [
            "localhost",
            "x.localhost",
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0.0.0.0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(leads_home(&stranger, &url(&format!("http://{home}:8080/"))), "{home}");
            assert!(!leads_home(&url("http://127.0.0.1/"), &url(&format!("http://{home}/"))), "from home to {home}");
        }
        for abroad in ["b.example", "192.0.2.1", "[2001:db8::1]", "localhost.example"] {
            assert!(!leads_home(&stranger, &url(&format!("http://{abroad}/"))), "{abroad}");
        }
    }
}
