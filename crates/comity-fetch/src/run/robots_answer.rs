//! What the answer to a robots.txt means.

use std::io::Read as _;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING};

use super::attempt::{Broken, Context, Deadline, read, timed_out};
use super::job::{Job, Message, RobotsAnswer, Sent};
use crate::client::ResponseBody;
use crate::robots::{self, Robots};

pub(super) async fn robots_answer(
    context: &Context,
    job: Box<Job>,
    status: u16,
    headers: &HeaderMap,
    body: ResponseBody,
    sent: Sent,
    deadline: Option<&Deadline>,
) -> Message {
    let lifetime = robots::lifetime(headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()));
    let answer = match robots::Answer::from_status(status) {
        robots::Answer::Parse => {
            let mut text = Vec::new();
            let reading = read(body, (&job.url, context.idle_time), |bytes| {
                text.extend_from_slice(&bytes[..bytes.len().min(robots::MAX_BODY - text.len())]);
                if text.len() == robots::MAX_BODY { Err(()) } else { Ok(()) }
            });
            match Deadline::limit(deadline, reading).await {
                // What is past the bound is not read (RFC 9309 §2.5).
                Ok(Ok(()) | Err(Broken::Keep(()))) => match decoded(headers, text) {
                    Ok(text) => RobotsAnswer::Rules(Robots::parse(&text, &context.product_token), lifetime),
                    Err(why) => RobotsAnswer::NotNow(why),
                },
                Ok(Err(Broken::Body(failure))) => RobotsAnswer::NotNow(failure.to_string()),
                Err(span) => RobotsAnswer::NotNow(timed_out(&job.url, span).to_string()),
            }
        }
        robots::Answer::AllowAll | robots::Answer::Follow => RobotsAnswer::Rules(Robots::allow_all(), lifetime),
        robots::Answer::NotNow => RobotsAnswer::NotNow(format!("it was answered with status {status}")),
    };
    Message::Robots { job, answer, sent }
}

/// A robots.txt without its content coding. We ask for none, but some servers send one all the same; what cannot be read is
/// "not now" and never "allow all".
fn decoded(headers: &HeaderMap, body: Vec<u8>) -> Result<Vec<u8>, String> {
    let coding = headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase()).unwrap_or_default();
    let mut text = Vec::new();
    let most = robots::MAX_BODY as u64;
    let read = match coding.as_slice() {
        b"" | b"identity" => return Ok(body),
        b"gzip" | b"x-gzip" => MultiGzDecoder::new(&body[..]).take(most).read_to_end(&mut text),
        b"deflate" => ZlibDecoder::new(&body[..]).take(most).read_to_end(&mut text),
        other => return Err(format!("its content coding `{}` is not known", String::from_utf8_lossy(other))),
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(format!("its content coding is broken: {error}")),
    }
}
