//! Pictures of arrivals: whole, bounded, and drawn from any log without harm.

use std::collections::BTreeSet;
use std::time::Duration;

use comity_audit::picture::{Dot, Panel, html, svg};

/// Colours of what is fine and what is wrong.
const FINE: &str = "#0072B2";
const WRONG: &str = "#D55E00";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn dots(count: usize, every: Duration, workers: usize) -> Vec<Dot> {
    let at = |n: usize| every.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX));
    (0..count).map(|n| Dot { at: at(n), worker: Some(n % workers), refused: false }).collect()
}

fn panel(dots: &[Dot], promised: Duration) -> Panel<'_> {
    Panel { title: "a run".into(), dots, promised }
}

/// Asserts that every tag is closed in its turn and that no text holds a bare `<` or `&`, and gives the tags.
fn well_formed(document: &str) -> Vec<&str> {
    let (mut open, mut tags) = (Vec::new(), Vec::new());
    for piece in document.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("a tag that does not end: {piece}"));
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{tag}");
        } else if !tag.ends_with('/') && !["!doctype", "meta"].contains(&name) {
            open.push(name);
        }
        tags.push(tag);
    }
    assert_eq!(open, Vec::<&str>::new());
    for entity in document.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "apos;", "#39;"];
        assert!(known.iter().any(|known| entity.starts_with(known)), "{entity:.20}");
    }
    assert!(document.chars().all(|c| c == '\n' || !c.is_control()));
    tags
}

fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    tag.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

fn marks<'a>(tags: &[&'a str], shape: &str, colour: &str) -> Vec<&'a str> {
    tags.iter().filter(|tag| tag.starts_with(shape) && attribute(tag, "fill") == colour).copied().collect()
}

#[test]
fn each_worker_has_a_row_and_a_label() {
    for workers in [1, 2, 8, 20] {
        let dots = dots(200, ms(500), workers);
        let picture = svg(&[panel(&dots, ms(500))]);
        let tags = well_formed(&picture);
        let circles = marks(&tags, "circle", FINE);
        let rows: BTreeSet<_> = circles.iter().map(|tag| attribute(tag, "cy")).collect();
        assert_eq!((circles.len(), rows.len()), (200, workers));
        assert!(picture.contains(&format!(">\n{}\n</text>", workers - 1)));
        assert!(picture.contains(">\nworker\n</text>"));
    }
}

#[test]
fn the_promised_spacing_is_a_line_and_short_gaps_lie_left_of_it() {
    let mut dots = dots(50, ms(500), 4);
    dots.push(Dot { at: ms(24_501), ..dots[0] });
    let picture = svg(&[panel(&dots, ms(500))]);
    let tags = well_formed(&picture);
    let line = tags.iter().find(|tag| tag.starts_with("polyline") && attribute(tag, "stroke") == "#1F2328").unwrap();
    let promised: i32 = attribute(line, "points").split(',').next().unwrap().parse().unwrap();
    let edge = |tag: &str, far: bool| {
        let number = |name| attribute(tag, name).parse::<i32>().unwrap();
        number("x") + if far { number("width") } else { 0 }
    };
    let (short, fine) = (marks(&tags, "rect", WRONG), marks(&tags, "rect", FINE));
    assert_eq!((short.len(), fine.len()), (1, 1));
    assert!(edge(short[0], true) <= promised && edge(fine[0], false) >= promised, "{promised}: {short:?} {fine:?}");
    assert!(picture.contains("promised: 500 ms"));
    assert!(picture.contains("51 arrivals in 24.5 s · 1 of 50 gaps under 500 ms, the least 1 ms"), "{picture}");
    assert!(attribute(short[0], "height").parse::<i32>().unwrap() >= 2, "one among fifty is seen");
}

#[test]
fn refused_arrivals_have_another_shape_and_the_shapes_are_explained() {
    let mut dots = dots(10, ms(500), 2);
    assert!(!svg(&[panel(&dots, ms(500))]).contains("refused"));
    dots[3].refused = true;
    let picture = svg(&[panel(&dots, ms(500))]);
    let tags = well_formed(&picture);
    // One more of each shape stands in the legend.
    assert_eq!((marks(&tags, "circle", FINE).len(), marks(&tags, "polygon", WRONG).len()), (10, 2));
    assert!(picture.contains("1 refused") && picture.contains(">\nrefused\n</text>"));
}

#[test]
fn no_log_is_too_small_or_too_strange_to_draw() {
    let one = dots(1, ms(500), 1);
    let same: Vec<_> = (0..5).map(|_| Dot { at: ms(7), worker: None, refused: true }).collect();
    let ages = [Duration::ZERO, Duration::MAX].map(|at| Dot { at, worker: Some(usize::MAX), refused: false });
    let hosts = dots(256, ms(1), 256);
    let day = Duration::from_secs(86_400);
    for log in [&[][..], &one, &same, &ages, &hosts] {
        for promised in [Duration::ZERO, Duration::from_nanos(1), ms(1), ms(500), day, Duration::MAX] {
            let picture = svg(&[panel(log, promised), panel(&one, promised)]);
            assert_eq!(well_formed(&picture).iter().filter(|tag| tag.starts_with("svg ")).count(), 1);
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{promised:?}");
        }
    }
    well_formed(&svg(&[]));
}

#[test]
fn nothing_is_drawn_outside_the_picture() {
    let mut log = dots(1000, ms(40), 16);
    log[7].refused = true;
    let picture = svg(&[panel(&log, ms(500)), panel(&log, ms(40)), panel(&log, ms(1))]);
    let tags = well_formed(&picture);
    let height: i32 = attribute(tags[0], "height").parse().unwrap();
    for tag in &tags {
        for (name, most) in [("cx", 1000), ("cy", height), ("x", 1000), ("y", height), ("x1", 1000), ("y2", height)] {
            if let Ok(at) = attribute(tag, name).parse::<i32>() {
                assert!((0..=most).contains(&at), "{tag}");
            }
        }
    }
}

#[test]
fn two_hundred_thousand_arrivals_make_a_small_picture() {
    let mut log = dots(200_000, ms(1), 256);
    log[77_777].refused = true;
    let picture = svg(&[panel(&log, ms(1))]);
    assert!(picture.len() < 200_000 && picture.contains("200000 arrivals"), "{}", picture.len());
    assert_eq!(marks(&well_formed(&picture), "polygon", WRONG).len(), 2, "the one refusal is seen, and explained");
}

#[test]
fn the_worst_of_logs_make_a_picture_below_two_megabytes() {
    // Far apart, so that nothing touches; or half refused, so that every row has marks of both kinds.
    let sparse: Vec<_> = (0..20_000).map(|n| Dot { worker: Some(n * 7 % 256), ..dots(1, ms(1), 1)[0] }).collect();
    let sparse: Vec<_> = sparse.iter().zip(0..).map(|(dot, n)| Dot { at: ms(n * n % 9973), ..*dot }).collect();
    let halves: Vec<_> = sparse.iter().zip(0..).map(|(dot, n)| Dot { refused: n / 3 % 2 == 0, ..*dot }).collect();
    for log in [&sparse, &halves] {
        for count in [1, 6, 100] {
            let panels: Vec<_> = (0..count).map(|_| panel(log, ms(1))).collect();
            let picture = svg(&panels);
            well_formed(&picture);
            assert!(picture.len() < 2_000_000, "{count} panels: {}", picture.len());
            assert_eq!(picture.contains("76 more are not drawn."), count == 100);
        }
    }
}

#[test]
fn a_page_needs_nothing_but_itself_and_hostile_words_stay_words() {
    let title = "</title><script>alert('&\"')</script>\u{0}\u{1b}\u{ffff}";
    let log = dots(3, ms(500), 1);
    let page = html(title, &[Panel { title: title.into(), dots: &log, promised: ms(500) }]);
    let tags = well_formed(&page);
    assert!(!tags.iter().any(|tag| tag.starts_with("script")));
    assert!(page.contains("&lt;/title&gt;&lt;script&gt;"));
    for outside in ["href", "src=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("://"));
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("<figcaption>"));
}

#[test]
fn a_long_title_is_cut_where_it_would_leave_the_picture() {
    let log = dots(3, ms(500), 1);
    let picture = svg(&[Panel { title: "word ".repeat(100), dots: &log, promised: ms(500) }]);
    assert!(picture.contains("word …\n") || picture.contains("word…\n"), "{picture}");
}
