//! Who we say we are.

use http::{HeaderValue, header};

use super::error::OptionError;
use super::header_line::HeaderLine;
use super::options::RequestOptions;

/// The `User-Agent` of a run.
pub(super) struct Agent {
    text: String,
    field: HeaderValue,
}

impl Agent {
    /// A header line wins over the option of its own, as with curl; without either it is ours.
    pub(super) fn new(options: &RequestOptions) -> Result<Self, OptionError> {
        let anonymous = "a name cannot be left out: say who you are, or leave it to comity";
        let mut text = match (&options.user_agent, &options.contact) {
            (Some(own), _) if own.trim().is_empty() => return Err(OptionError::value("--user-agent", own, anonymous)),
            (Some(own), _) => own.trim().to_owned(),
            (None, None) => format!("{NAME}/{VERSION}"),
            (None, Some(contact)) => format!("{NAME}/{VERSION} (+{})", checked_contact(contact)?),
        };
        for line in &options.headers {
            match line {
                HeaderLine::Set(header::USER_AGENT, value) if !value.is_empty() => {
                    value.to_str().unwrap_or(NAME).clone_into(&mut text);
                }
                HeaderLine::Set(header::USER_AGENT, _) | HeaderLine::Remove(header::USER_AGENT) => {
                    return Err(OptionError::value("a header", "User-Agent", anonymous));
                }
                _ => {}
            }
        }
        match HeaderValue::from_str(&text) {
            Ok(field) => Ok(Self { text, field }),
            Err(_) => Err(OptionError::value("--user-agent", &text, "allowed are visible ASCII characters and spaces")),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn field(&self) -> &HeaderValue {
        &self.field
    }

    pub(super) fn names_no_contact(&self) -> bool {
        !["://", "www.", "@"].iter().any(|sign| self.text.contains(sign))
    }

    pub(super) fn product_token(&self) -> &str {
        let claimed = match self.text.split_once("(compatible;") {
            // Crawlers have hidden behind this name since 1995; their robots.txt name is the one in the comment.
            Some((before, claimed)) if before.starts_with("Mozilla/") => claimed.trim_start(),
            _ => self.text.as_str(),
        };
        // RFC 9110 section 10.1.5: a product is a token, a slash and a version.
        let end = claimed.find(|c: char| !(c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)));
        match &claimed[..end.unwrap_or(claimed.len())] {
            "" => NAME,
            token => token,
        }
    }
}

/// A contact goes into a comment, so it cannot close one.
fn checked_contact(contact: &str) -> Result<&str, OptionError> {
    let contact = contact.trim();
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"()\\<>\"".contains(&byte);
    let is_contact = ["://", "@"].iter().any(|sign| contact.contains(sign));
    if is_contact && contact.len() <= MAX_CONTACT && contact.bytes().all(fits) {
        Ok(contact)
    } else {
        Err(OptionError::value("--contact", contact, "allowed is a URL or a mail address, in ASCII"))
    }
}

const NAME: &str = "comity";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const MAX_CONTACT: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(user_agent: Option<&str>, contact: Option<&str>, headers: &[&str]) -> Result<Agent, String> {
        let options = RequestOptions {
            user_agent: user_agent.map(str::to_owned),
            contact: contact.map(str::to_owned),
            headers: headers.iter().map(|line| line.parse().unwrap()).collect(),
            ..RequestOptions::default()
        };
        Agent::new(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn h18_we_name_the_product_and_a_contact_and_know_when_there_is_none() {
        let ours = agent(None, Some("https://example.org/bot"), &[]).unwrap();
        assert_eq!(ours.text(), format!("comity/{VERSION} (+https://example.org/bot)"));
        assert!(!ours.names_no_contact());
        assert!(!agent(None, Some("ops@example.org"), &[]).unwrap().names_no_contact());

        let nobody = agent(None, None, &[]).unwrap();
        assert_eq!((nobody.text(), nobody.product_token()), (format!("comity/{VERSION}").as_str(), "comity"));
        assert!(nobody.names_no_contact());
        assert!(!nobody.text().contains("Mozilla"));
    }

    #[test]
    fn t13_a_callers_own_name_is_kept_as_it_is() {
        let own = agent(Some("ourbot/2.1 (+https://example.org)"), Some("ops@example.org"), &[]).unwrap();
        assert_eq!((own.text(), own.product_token()), ("ourbot/2.1 (+https://example.org)", "ourbot"));
        let by_header = agent(Some("ourbot/2.1"), None, &["User-Agent: other/1"]).unwrap();
        assert_eq!(by_header.text(), "other/1");
        assert!(by_header.names_no_contact());
        for (user_agent, header) in [(Some(""), "A: b"), (None, "User-Agent:"), (None, "User-Agent;")] {
            assert!(agent(user_agent, None, &[header]).is_err_and(|error| error.contains("say who you are")));
        }
    }

    #[test]
    fn the_name_for_robots_txt_is_the_first_product() {
        for (text, token) in [
            ("wget2/1.0 libpsl", "wget2"),
            ("our-bot", "our-bot"),
            ("Mozilla/5.0 (compatible; OurBot/2.1; +https://example.org/)", "OurBot"),
            ("Mozilla/5.0 (X11; Linux)", "Mozilla"),
            ("(nameless)", "comity"),
        ] {
            assert_eq!(agent(Some(text), None, &[]).unwrap().product_token(), token, "{text}");
        }
    }

    #[test]
    fn a_contact_cannot_end_its_comment_or_the_field() {
        for contact in ["a@b) evil/1 (", "a@b\r\nX: y", "", "nobody", "a@\u{e9}", &"@".repeat(501)] {
            assert!(agent(None, Some(contact), &[]).is_err_and(|error| error.contains("--contact")), "{contact:?}");
        }
        assert!(agent(Some("a\r\nb: c"), None, &[]).is_err());
    }
}
