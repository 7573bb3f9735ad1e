//! Fetch a list of URLs politely: robots.txt, redirects, retries, and what is kept of the answers.

pub mod client;
pub mod keep;
pub mod robots;
