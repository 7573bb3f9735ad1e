//! What all pictures have in common: paper, ink, letters, and their dark sisters.

use std::error::Error;
use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Whatever goes wrong while drawing.
pub(super) type Drawn = Result<(), Box<dyn Error + Send + Sync>>;

/// A document of that size, drawn by `draw`, that is light or dark as its viewer prefers.
///
/// Drawing into memory does not fail; if it did, the document would say so and the page around it still be whole.
pub(super) fn document(title: &str, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut document = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut document, size).into_drawing_area();
        let drawn = root.fill(&PAPER).map_err(Into::into).and_then(|()| draw(&root));
        drawn.and_then(|()| root.present().map_err(Into::into))
    };
    let title = escape(title);
    if let Err(error) = drawn {
        let error = escape(&error.to_string());
        return format!("<svg xmlns=\"http://www.w3.org/2000/svg\"><title>{title}: {error}</title></svg>\n");
    }
    let head = document.find('>').map_or(0, |end| end + 1);
    document.insert_str(head, &format!("\n<title>{title}</title>\n<style>{}</style>", dark_style()));
    document
}

/// Writes a line of text, whose middle is at that height.
pub(super) fn text(area: &Area<'_>, words: &str, at: (i32, i32), size: i32, colour: RGBColor, from: HPos) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(from, VPos::Center));
    area.draw(&Text::new(printable(words), at, style))?;
    Ok(())
}

/// How wide a text of that size is, in pixels, rather too much than too little.
pub(super) fn width(words: &str, size: i32) -> i32 {
    let letters = i32::try_from(words.chars().count()).unwrap_or(i32::MAX);
    // The plotting library sets letters at 1/1.24 of the size it is given; a letter is some 0.52 of that wide.
    letters.saturating_mul(size) * 42 / 100
}

/// A text of so many characters at most.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A text as XML and HTML may hold it, between tags as well as in an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A text without the characters that XML 1.0 (section 2.2) cannot hold at all, on one line.
fn printable(text: &str) -> String {
    let unfit = |c: char| c.is_control() || ['\u{fffe}', '\u{ffff}'].contains(&c);
    text.chars().map(|c| if unfit(c) { ' ' } else { c }).collect()
}

/// Turns each light colour into its dark sister. Colours are attributes in the picture, which any rule of style outranks.
fn dark_style() -> String {
    let mut rules = String::new();
    for (RGBColor(red, green, blue), dark) in DARK {
        for attribute in ["fill", "stroke"] {
            let _ = write!(rules, "[{attribute}=\"#{red:02X}{green:02X}{blue:02X}\"]{{{attribute}:{dark}}}");
        }
    }
    format!("@media (prefers-color-scheme:dark){{{rules}}}")
}

pub(super) const MARGIN: i32 = 16;
pub(super) const TITLE: i32 = 20;
pub(super) const TEXT: i32 = 16;
pub(super) const SMALL: i32 = 15;

pub(super) const PAPER: RGBColor = RGBColor(255, 255, 255);
pub(super) const INK: RGBColor = RGBColor(31, 35, 40);
pub(super) const MUTED: RGBColor = RGBColor(87, 96, 106);
pub(super) const FAINT: RGBColor = RGBColor(216, 222, 228);
/// Blue, bluish green and vermilion of the palette by Okabe and Ito, which people with any kind of colour blindness tell
/// apart.
pub(super) const OWN: RGBColor = RGBColor(0, 114, 178);
pub(super) const TRUTH: RGBColor = RGBColor(0, 128, 96);
pub(super) const WRONG: RGBColor = RGBColor(213, 94, 0);
/// Each colour on dark paper.
const DARK: [(RGBColor, &str); 7] = [
    (PAPER, "#0d1117"),
    (INK, "#e6edf3"),
    (MUTED, "#9da7b1"),
    (FAINT, "#30363d"),
    (OWN, "#56b4e9"),
    (TRUTH, "#2fc9a0"),
    (WRONG, "#e69f00"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_markup() {
        assert_eq!(escape("a<b>&\"c'\u{0}\nd"), "a&lt;b&gt;&amp;&quot;c&#39;  d");
        let drawn = document("<script>", (100, 50), |area| text(area, "<b>", (1, 1), TEXT, INK, HPos::Left));
        assert!(!drawn.contains("<script>") && !drawn.contains("<b>"), "{drawn}");
        assert!(drawn.contains("prefers-color-scheme:dark"), "{drawn}");
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!((shortened("abcdef", 4), shortened("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
        assert!(width("twelve chars", TEXT) > 75);
    }
}
