//! Passwords by host, from a netrc file.
//!
//! Words are parted by white space; a word in double quotes may have some in it, and `\n`, `\r`, `\t`, `\"` and `\\`, as
//! curl reads them. Where a keyword could stand, `#` begins a comment. Macros are passed over.

use super::credentials::Credentials;

/// The entries of a netrc file, in their order.
pub(super) struct Netrc {
    entries: Vec<Entry>,
}

#[derive(Default)]
struct Entry {
    /// `None` for `default`, which stands for every host not named above it.
    machine: Option<String>,
    login: Option<String>,
    password: Option<String>,
    credentials: Option<Credentials>,
}

impl Netrc {
    /// Reads a file's text; the error says which line is wrong, and repeats nothing of it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut words = Words { text, line: 1 };
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(keyword) = words.keyword()? {
            match keyword.as_str() {
                "machine" => entries.push(Entry { machine: Some(words.value("machine")?), ..Entry::default() }),
                "default" => entries.push(Entry::default()),
                "macdef" => words.skip_macro(),
                "login" | "password" | "account" => {
                    let value = words.value(&keyword)?;
                    let Some(entry) = entries.last_mut() else {
                        return Err(format!("line {}: {keyword} stands before any machine", words.line));
                    };
                    match keyword.as_str() {
                        "login" => entry.login = Some(value),
                        "password" => entry.password = Some(value),
                        _ => {}
                    }
                }
                // What other programs put there is not for us.
                _ => {}
            }
        }
        for entry in &mut entries {
            let login = entry.login.as_deref().unwrap_or_default();
            let known = entry.login.is_some() || entry.password.is_some();
            entry.credentials =
                known.then(|| Credentials::new(login, Some(entry.password.as_deref().unwrap_or_default())));
        }
        Ok(Self { entries })
    }

    /// What there is for `host`: the first entry, of this user where one is given. `default` counts where `any` is set.
    pub(super) fn find(&self, host: &str, user: Option<&Credentials>, any: bool) -> Option<&Credentials> {
        let host = host.trim_matches(['[', ']']).trim_end_matches('.');
        let of_host = |entry: &&Entry| match &entry.machine {
            Some(machine) => machine.trim_end_matches('.').eq_ignore_ascii_case(host),
            None => any,
        };
        let of_user = |entry: &&Entry| match (user, &entry.login) {
            (Some(user), Some(login)) => user.user() == login.as_bytes(),
            _ => true,
        };
        self.entries.iter().filter(of_host).filter(of_user).find_map(|entry| entry.credentials.as_ref())
    }
}

/// What is left to read, and where that is.
struct Words<'a> {
    text: &'a str,
    line: usize,
}

impl Words<'_> {
    /// The next word that is no comment.
    fn keyword(&mut self) -> Result<Option<String>, String> {
        loop {
            self.skip_space();
            if !self.text.starts_with('#') {
                return self.word();
            }
            self.skip_to(self.text.find('\n').unwrap_or(self.text.len()));
        }
    }

    fn value(&mut self, of: &str) -> Result<String, String> {
        let line = self.line;
        self.skip_space();
        self.word()?.ok_or_else(|| format!("line {line}: {of} has no value"))
    }

    /// A macro ends with an empty line.
    fn skip_macro(&mut self) {
        let end = self.text.find("\n\n").or_else(|| self.text.find("\n\r\n")).unwrap_or(self.text.len());
        self.skip_to(end);
    }

    fn word(&mut self) -> Result<Option<String>, String> {
        if self.text.is_empty() {
            return Ok(None);
        }
        if !self.text.starts_with('"') {
            let end = self.text.find(char::is_whitespace).unwrap_or(self.text.len());
            let word = self.text[..end].to_owned();
            self.skip_to(end);
            return Ok(Some(word));
        }
        let mut word = String::new();
        let mut chars = self.text.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.skip_to(at + 1);
                    return Ok(Some(word));
                }
                '\\' => word.extend(chars.next().map(|(_, escaped)| match escaped {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                })),
                c => word.push(c),
            }
        }
        Err(format!("line {}: a quote has no end", self.line))
    }

    fn skip_space(&mut self) {
        self.skip_to(self.text.len() - self.text.trim_start().len());
    }

    fn skip_to(&mut self, end: usize) {
        self.line += self.text[..end].matches('\n').count();
        self.text = &self.text[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, host: &str) -> Option<Credentials> {
        Netrc::parse(text).unwrap().find(host, None, true).cloned()
    }

    fn both(user: &str, password: &str) -> Option<Credentials> {
        Some(Credentials::new(user, Some(password)))
    }

    #[test]
    fn entries_are_found_by_host_in_every_spelling() {
        let text = "# ours\nmachine example.org\n\tlogin ann # not a word of hers\n\tpassword #1 account x\n\
                    machine b.example login \"b ob\" password \"p\\\"w\\\\ \\t\"\r\nmachine ::1 login v6 password six\n\
                    default login any password one";
        assert_eq!(find(text, "example.org"), both("ann", "#1"));
        assert_eq!(find(text, "EXAMPLE.org."), both("ann", "#1"));
        assert_eq!(find(text, "b.example"), both("b ob", "p\"w\\ \t"));
        assert_eq!(find(text, "[::1]"), both("v6", "six"));
        assert_eq!(find(text, "sub.example.org"), both("any", "one"));
        assert_eq!(Netrc::parse(text).unwrap().find("c.example", None, false), None);
    }

    #[test]
    fn a_user_picks_among_entries_of_one_host() {
        let netrc = Netrc::parse("machine h login a password 1 machine h login b password 2").unwrap();
        let user = |name| Credentials::new(name, None);
        assert_eq!(netrc.find("h", None, true).cloned(), both("a", "1"));
        assert_eq!(netrc.find("h", Some(&user("b")), true).cloned(), both("b", "2"));
        assert_eq!(netrc.find("h", Some(&user("c")), true), None);
    }

    #[test]
    fn macros_and_unknown_words_are_passed_over() {
        let text =
            "machine a login x password y\nmacdef init\nmachine b login no\n\nmachine b port 21 login z password w";
        assert_eq!(find(text, "b"), both("z", "w"));
        assert_eq!(find("macdef init\nmachine b login no", "b"), None);
        assert_eq!(find("", "b"), None);
    }

    #[test]
    fn what_is_wrong_is_told_by_line_and_not_repeated() {
        let wrong = |text: &str| Netrc::parse(text).err().unwrap();
        assert_eq!(wrong("machine a\nlogin \"s3cret"), "line 2: a quote has no end");
        assert_eq!(wrong("\nlogin s3cret"), "line 2: login stands before any machine");
        assert_eq!(wrong("machine a\npassword"), "line 2: password has no value");
    }
}
