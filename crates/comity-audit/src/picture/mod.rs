//! Arrivals, drawn: what a server received, as a picture anybody can judge with the bare eye.
//!
//! Of each log there are two plots side by side: the arrivals over time, a row for each worker, and the gaps between
//! neighbouring arrivals as a histogram with the promised spacing as a line. What lies left of the line came too soon.
//!
//! ```
//! use comity_audit::picture::{Dot, Panel, html};
//! use std::time::Duration;
//!
//! let dots: Vec<_> = (0..20)
//!     .map(|n| Dot { at: Duration::from_millis(500 * n), worker: Some(n as usize % 4), refused: false })
//!     .collect();
//! let panel = Panel { title: "four workers, one pace".into(), dots: &dots, promised: Duration::from_millis(500) };
//! let page = html("What the server received", &[panel]);
//! assert!(page.contains("<svg"));
//! ```

mod axis;
mod gaps;
mod panel;
mod rows;
mod unit;

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// One log of arrivals to draw.
#[derive(Clone, Debug)]
pub struct Panel<'a> {
    /// What stands above it.
    pub title: String,
    /// The arrivals, in any order.
    pub dots: &'a [Dot],
    /// The spacing that was promised.
    pub promised: Duration,
}

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dot {
    /// When it arrived; the first of a panel stands at zero.
    pub at: Duration,
    /// Which worker sent it, counted from zero, where that is known.
    pub worker: Option<usize>,
    /// Whether the server refused it.
    pub refused: bool,
}

/// Draws panels below one another, as one SVG document. It is light or dark as its viewer prefers.
///
/// However many dots there are, it stays below 2 MB: dots that would touch are drawn as one. The histogram and the
/// numbers count every dot. Workers beyond the 256th share the last row, and panels beyond the 24th are counted
/// but not drawn.
pub fn svg(panels: &[Panel<'_>]) -> String {
    let mut document = String::new();
    if let Err(error) = draw(panels, &mut document) {
        // Drawing into memory does not fail; if it did, the page around it should still be whole.
        return format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title></svg>\n",
            escape(&error.to_string())
        );
    }
    let head = document.find('>').map_or(0, |end| end + 1);
    document
        .insert_str(head, &format!("\n<title>{}</title>\n<style>{}</style>", escape(&summary(panels)), dark_style()));
    document
}

/// Draws panels as one HTML page that needs nothing else: no script, no font, no network.
pub fn html(title: &str, panels: &[Panel<'_>]) -> String {
    let (title, picture) = (escape(title), svg(panels));
    format!(
        "<!doctype html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n\
         <style>{PAGE_STYLE}</style>\n\
         </head>\n\
         <body>\n\
         <h1>{title}</h1>\n\
         <figure>\n\
         {picture}\
         <figcaption>{CAPTION}</figcaption>\n\
         </figure>\n\
         </body>\n\
         </html>\n"
    )
}

/// Whatever goes wrong while drawing.
type Drawn = Result<(), Box<dyn Error + Send + Sync>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(panels: &[Panel<'_>], document: &mut String) -> Drawn {
    let drawn = &panels[..panels.len().min(MOST_PANELS)];
    let most_dots = MOST_DOTS / drawn.len().max(1);
    let plans: Vec<_> = drawn.iter().map(|panel| panel::Plan::of(panel, most_dots)).collect();
    let note = match panels.len() - drawn.len() {
        0 if panels.is_empty() => Some("There is nothing to draw.".to_owned()),
        0 => None,
        more => Some(format!("{more} more are not drawn.")),
    };
    let note_height = if note.is_some() { NOTE_HEIGHT } else { 0 };
    let height = plans.iter().map(panel::Plan::height).sum::<u32>() + note_height;

    let root = SVGBackend::with_string(document, (WIDTH, height)).into_drawing_area();
    root.fill(&PAPER)?;
    let mut rest = root.clone();
    for plan in &plans {
        let (area, below) = rest.split_vertically(plan.height());
        plan.draw(&area)?;
        rest = below;
    }
    if let Some(note) = note {
        text(&rest, &note, (MARGIN, NOTE_HEIGHT.cast_signed() / 2), TEXT, MUTED, HPos::Left)?;
    }
    root.present()?;
    Ok(())
}

/// Writes a line of text, whose middle is at that height.
fn text(area: &Area<'_>, words: &str, at: (i32, i32), size: i32, colour: RGBColor, from: HPos) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(from, VPos::Center));
    area.draw(&Text::new(printable(words), at, style))?;
    Ok(())
}

fn summary(panels: &[Panel<'_>]) -> String {
    let mut summary = "Arrivals over time and the gaps between them".to_owned();
    for (index, panel) in panels.iter().take(MOST_PANELS).enumerate() {
        let _ = write!(summary, "{}{}", if index == 0 { ": " } else { "; " }, panel.title);
    }
    summary
}

/// A text as XML and HTML may hold it, between tags as well as in an attribute.
fn escape(text: &str) -> String {
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
    text.chars().map(|c| if unfit(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Turns each light colour into its dark sister. Colours are attributes in the picture, which any rule of style outranks.
fn dark_style() -> String {
    let mut rules = String::new();
    for (light, dark) in DARK {
        let RGBColor(red, green, blue) = light;
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        for attribute in ["fill", "stroke"] {
            let _ = write!(rules, "[{attribute}=\"{light}\"]{{{attribute}:{dark}}}");
        }
    }
    format!("@media (prefers-color-scheme:dark){{{rules}}}")
}

const WIDTH: u32 = 1000;
const MARGIN: i32 = 16;
const NOTE_HEIGHT: u32 = 48;
/// The plotting library sets letters at 1/1.24 of the size it is given: 13 pixels.
const TEXT: i32 = 16;
/// A picture is for the eye; a log of more hosts than this is for the table.
const MOST_PANELS: usize = 24;
/// A mark takes some 100 bytes of SVG, and a picture should load at once. Beyond this, every panel still has its two marks
/// for each of 256 rows.
const MOST_DOTS: usize = 12_000;

const PAPER: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(31, 35, 40);
const MUTED: RGBColor = RGBColor(87, 96, 106);
const FAINT: RGBColor = RGBColor(216, 222, 228);
/// Blue and vermilion of the palette by Okabe and Ito, which people with any kind of colour blindness tell apart.
const FINE: RGBColor = RGBColor(0, 114, 178);
const WRONG: RGBColor = RGBColor(213, 94, 0);
/// Each colour on dark paper; sky blue and orange are of the same palette.
const DARK: [(RGBColor, &str); 6] = [
    (PAPER, "#0d1117"),
    (INK, "#e6edf3"),
    (MUTED, "#9da7b1"),
    (FAINT, "#30363d"),
    (FINE, "#56b4e9"),
    (WRONG, "#e69f00"),
];

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark}\
body{margin:2rem auto;max-width:1000px;padding:0 1rem;font:16px/1.5 system-ui,sans-serif;background:#fff;color:#1f2328}\
h1{font-size:1.5rem;overflow-wrap:anywhere}\
figure{margin:0}\
svg{max-width:100%;height:auto}\
figcaption{color:#57606a;font-size:.9rem}\
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}figcaption{color:#9da7b1}}";
const CAPTION: &str = "\
Each mark is a request, at the time at which the server received it. Right of it is how often each gap between one \
arrival and the next came up; gaps left of the line are shorter than was promised. A bar is never too low to be seen, \
and marks that would touch may be drawn as one line; the numbers count them all.";
