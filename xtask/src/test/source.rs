//! The paths a Rust source mentions, to look for what may not be there.

use anyhow::anyhow;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path or single word of a source, with `use` groups spelt out (`std::{fs, io}` is `std::fs` and `std::io`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
}

/// Every path mentioned in code; comments, literals and `#[cfg(test)]` modules are left out.
pub(super) fn mentions(source: &str) -> anyhow::Result<Vec<Mention>> {
    let tokens: TokenStream = source.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
    let mut found = Vec::new();
    walk(tokens, &[], &mut found);
    Ok(found)
}

/// Collects the paths of a token stream; `before` is the path its group belongs to.
fn walk(tokens: TokenStream, before: &[String], found: &mut Vec<Mention>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        at += match &tokens[at..] {
            rest if begins_test_module(rest) => rest.iter().position(ends_module).map_or(rest.len(), |end| end + 1),
            [TokenTree::Punct(quote), TokenTree::Ident(_), ..] if quote.as_char() == '\'' => 2, // a lifetime
            rest @ [TokenTree::Ident(_), ..] => path(rest, before, found),
            [TokenTree::Punct(star), ..] if star.as_char() == '*' && !before.is_empty() => {
                found.push(Mention { line: star.span().start().line, path: [before, &["*".into()]].concat() });
                1
            }
            [TokenTree::Group(group), ..] => {
                walk(group.stream(), &[], found);
                1
            }
            _ => 1,
        };
    }
}

/// Reads the path that begins the tokens and says how many of them it took.
fn path(tokens: &[TokenTree], before: &[String], found: &mut Vec<Mention>) -> usize {
    let mut path = before.to_vec();
    let line = tokens[0].span().start().line;
    let mut at = 0;
    loop {
        match &tokens[at..] {
            [TokenTree::Ident(word), ..] => path.push(word.to_string()),
            [TokenTree::Punct(star), ..] if star.as_char() == '*' => path.push("*".to_owned()),
            [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                walk(group.stream(), &path, found);
                return at + 1;
            }
            // Type arguments after `::`; they are read as paths of their own.
            _ => {
                found.push(Mention { line, path });
                return at;
            }
        }
        at += 1;
        if !begins_with_colons(&tokens[at..]) {
            found.push(Mention { line, path });
            return at;
        }
        at += 2;
    }
}

fn begins_with_colons(tokens: &[TokenTree]) -> bool {
    let colon = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
    tokens.len() >= 2 && tokens[..2].iter().all(colon)
}

fn begins_test_module(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(gate), TokenTree::Ident(item), ..] = tokens else { return false };
    let gate: String = gate.stream().to_string().split_whitespace().collect();
    hash.as_char() == '#' && gate == "cfg(test)" && item == "mod"
}

fn ends_module(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        mentions(source).unwrap().into_iter().map(|mention| mention.path.join("::")).collect()
    }

    #[test]
    fn groups_are_spelt_out() {
        let found = paths("use std::{fs, time::{self, Instant}, io::*, sync};");
        assert_eq!(found, ["use", "std::fs", "std::time::self", "std::time::Instant", "std::io::*", "std::sync"]);
        assert_eq!(paths("use std::{*}"), ["use", "std::*"]);
    }

    #[test]
    fn blocks_arguments_and_turbofish_are_read_too() {
        assert_eq!(paths("a::b { c(d::<e::F>()) }"), ["a::b", "c", "d", "e::F"]);
    }

    #[test]
    fn comments_literals_and_lifetimes_are_not_code() {
        let source = r####"
            // async
            /* std::fs /* tokio */ unsafe */
            f("std::io \" tokio", r#"a "async" b"#, 'a', '\'', b"async", b'u');
            fn g<'async>() {}"####;
        assert_eq!(paths(source), ["f", "fn", "g"]);
    }

    #[test]
    fn a_test_module_is_left_out_and_what_follows_is_not() {
        let source = "a(); #[cfg(test)] mod tests { use std::fs; fn f() { {} } } b(); #[cfg(test)] mod t; c();";
        assert_eq!(paths(source), ["a", "b", "c"]);
    }

    #[test]
    fn a_mention_knows_its_line() {
        let found = mentions("a;\n/* \n */ b;\nf(\n\"\", c)").unwrap();
        assert_eq!(found.iter().map(|mention| mention.line).collect::<Vec<_>>(), [1, 3, 4, 5]);
    }

    #[test]
    fn what_is_not_rust_is_an_error() {
        assert!(mentions("fn f( {").is_err());
    }
}
