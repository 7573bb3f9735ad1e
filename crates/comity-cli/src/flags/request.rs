//! Flags about what a request says: who asks, headers, cookies, credentials.

use std::path::PathBuf;

use clap::Args;
use comity_fetch::request::{CookieSource, Credentials, HeaderLine, NetrcSource, RequestOptions};
use url::Url;

/// What requests say.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Requests")]
pub(crate) struct RequestFlags {
    /// Ask with HEAD: no bodies; an answer of 400 or more is a broken link
    #[arg(short = 'I', long)]
    pub(crate) head: bool,

    /// A header field for every host of the list (repeatable); 'NAME:' leaves a default out, 'NAME;' sends it empty
    ///
    /// Authorization, Cookie and what by its name is a secret never go to another origin that a redirect leads to.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<HeaderLine>,

    /// The whole User-Agent, sent as it is; without it, ours names the product and the contact
    #[arg(short = 'A', long, value_name = "TEXT")]
    user_agent: Option<String>,

    /// Where an operator finds whoever runs this: an http or https URL, or a mail address
    ///
    /// It stands in our own User-Agent. Beside --user-agent it is not sent, and a message says so: name the contact in
    /// that text.
    #[arg(long, value_name = "URL or MAIL", value_parser = contact)]
    contact: Option<String>,

    /// Cookies to begin with: NAME=VALUE; … for every host of the list, or a file of them (repeatable)
    #[arg(short = 'b', long = "cookie", value_name = "COOKIES or FILE")]
    cookies: Vec<CookieSource>,

    /// Keep the cookies received in this file
    #[arg(short = 'c', long, value_name = "FILE")]
    cookie_jar: Option<PathBuf>,

    /// Name and password for every host of the list, never for another origin that a redirect leads to
    #[arg(short = 'u', long, value_name = "USER:PASSWORD")]
    user: Option<Credentials>,

    /// Names and passwords by host from ~/.netrc
    #[arg(short = 'n', long)]
    netrc: bool,

    /// Names and passwords by host from this file
    #[arg(long, value_name = "FILE", conflicts_with = "netrc")]
    netrc_file: Option<PathBuf>,
}

impl RequestFlags {
    /// Whether a contact was given that no request names.
    pub(crate) fn leaves_contact_out(&self) -> bool {
        match (&self.contact, &self.user_agent) {
            (Some(contact), Some(agent)) => !agent.contains(contact.as_str()),
            _ => false,
        }
    }

    /// Options of the requests.
    pub(crate) fn options(&self) -> RequestOptions {
        RequestOptions {
            user_agent: self.user_agent.clone(),
            contact: self.contact.clone(),
            headers: self.headers.clone(),
            head: self.head,
            credentials: self.user.clone(),
            netrc: match &self.netrc_file {
                Some(file) => NetrcSource::File(file.clone()),
                None if self.netrc => NetrcSource::Home,
                None => NetrcSource::None,
            },
            cookies: self.cookies.clone(),
            cookie_jar: self.cookie_jar.clone(),
        }
    }
}

/// An http or https URL with a host, or a mail address.
fn contact(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_mail = || {
        let (name, domain) = text.rsplit_once('@')?;
        let plain = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "/:@".contains(c));
        let labels = domain.split('.').all(|label| !label.is_empty());
        (plain(name.strip_prefix("mailto:").unwrap_or(name)) && plain(domain) && labels).then_some(())
    };
    let is_page = || {
        let url =
            Url::parse(text).ok().filter(|url| text.contains("://") && matches!(url.scheme(), "http" | "https"))?;
        url.host_str().filter(|host| !host.is_empty()).map(drop)
    };
    match is_page().or_else(is_mail) {
        Some(()) => Ok(text.to_owned()),
        None => {
            Err("allowed is a URL such as https://example.org/bot or a mail address such as bot@example.org".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};

    fn options(words: &[&str]) -> RequestOptions {
        parse::<RequestFlags>(words).unwrap().options()
    }

    #[test]
    fn each_flag_reaches_its_option() {
        let headers = options(&["-H", "Accept: text/html", "--header", "X-Empty;"]).headers;
        assert_eq!(headers, ["Accept: text/html".parse().unwrap(), "X-Empty;".parse().unwrap()]);
        assert_eq!(options(&["-A", "example-bot/1.0"]).user_agent.as_deref(), Some("example-bot/1.0"));
        assert_eq!(options(&["--contact", "https://example.org/bot"]).contact.unwrap(), "https://example.org/bot");
        assert_eq!(options(&["-b", "a=1; b=2", "--cookie", "jar.txt"]).cookies.len(), 2);
        assert_eq!(options(&["--cookie-jar", "jar.json"]).cookie_jar, Some("jar.json".into()));
        assert_eq!(options(&["-u", "me:a:secret"]).credentials, Some(Credentials::new("me", Some("a:secret"))));
        assert_eq!(options(&["--netrc"]).netrc, NetrcSource::Home);
        assert_eq!(options(&["--netrc-file", "netrc"]).netrc, NetrcSource::File("netrc".into()));
        assert_eq!(options(&[]).netrc, NetrcSource::None);
        assert!(options(&["--head"]).head && options(&["-I"]).head && !options(&[]).head);
    }

    #[test]
    fn h18_a_contact_is_somewhere_to_write_to() {
        for good in [
            "https://example.org/bot",
            "http://example.org",
            "bot@example.org",
            "mailto:bot@example.org",
            "a@localhost",
        ] {
            assert_eq!(options(&["--contact", good]).contact.as_deref(), Some(good));
        }
        for bad in [
            "http://",
            "https://",
            "nobody",
            "example.org",
            "www.example.org",
            "@",
            "a@",
            "@b",
            "a@b..c",
            "ftp://a.example/",
            "https:example.org",
            "",
        ] {
            refused::<RequestFlags>(&["--contact", bad], &["--contact", "allowed is"]);
        }
    }

    #[test]
    fn t13_a_contact_that_an_own_name_leaves_out_is_told() {
        let told = |words: &[&str]| parse::<RequestFlags>(words).unwrap().leaves_contact_out();
        assert!(told(&["--contact", "a@example.org", "-A", "our-bot/1"]));
        assert!(!told(&["--contact", "a@example.org", "-A", "our-bot/1 (a@example.org)"]));
        assert!(!told(&["--contact", "a@example.org"]) && !told(&["-A", "our-bot/1"]));
    }

    #[test]
    fn wrong_values_name_flag_value_and_what_is_allowed() {
        refused::<RequestFlags>(&["-H", "nonsense"], &["--header", "'nonsense'", "Name: value"]);
        refused::<RequestFlags>(&["-H", "a: b\nc: d"], &["--header"]);
        refused::<RequestFlags>(&["-u", ""], &["--user", "allowed"]);
        refused::<RequestFlags>(&["--netrc", "--netrc-file", "x"], &["--netrc", "--netrc-file"]);
    }
}
