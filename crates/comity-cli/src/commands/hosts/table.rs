//! Scopes and members as tables that fit a terminal.

use super::seen::{Clocks, IntervalFrom, Member, Seen, Trial, seconds};
use crate::screen::words::{clean, middle, span};

/// A column: its title and a cell a row.
struct Column {
    title: &'static str,
    cells: Vec<String>,
    /// The same in fewer words, for a narrow terminal.
    short: Option<Vec<String>>,
    align: Align,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// The scopes, a line each under a line of titles; no line is wider than `width`.
pub(super) fn scopes(seen: &[Seen], clocks: &Clocks, width: usize) -> Vec<String> {
    let column = |title, cell: &dyn Fn(&Seen) -> String| Column::new(title, seen.iter().map(cell).collect());
    let mut columns = vec![
        column("scope", &|seen| clean(&seen.name)),
        column("interval", &interval).short(seen.iter().map(|seen| whole(seen.interval_secs)).collect()),
        column("next start", &next_start),
        column("in flight", &in_flight).right(),
        column("pause", &|seen| pause(seen, clocks)).short(seen.iter().map(short_pause).collect()),
        column("refused", &refused).right(),
        column("waiting", &|seen| number(seen.waiting.len())).right(),
        column("made slower", &lowered).short(seen.iter().map(short_lowered).collect()),
    ];
    // What is true of no scope takes no room.
    columns.retain(|column| column.title == "scope" || column.cells.iter().any(|cell| cell != NOTHING));
    fit(&mut columns, width);
    lines(&columns, seen.len(), width)
}

/// The members, likewise.
pub(super) fn members(members: &[Member], width: usize) -> Vec<String> {
    let column = |title, cell: &dyn Fn(&Member) -> String| Column::new(title, members.iter().map(cell).collect());
    let mut columns = vec![
        column("member", &|member| clean(&member.id)),
        column("joined", &|member| format!("{} ago", span(member.joined.ago()))),
        column("last seen", &|member| format!("{} ago", span(member.seen.ago()))),
        column("in flight", &|member| member.places.to_string()).right(),
    ];
    fit(&mut columns, width);
    lines(&columns, members.len(), width)
}

fn interval(seen: &Seen) -> String {
    let interval = whole(seen.interval_secs);
    match seen.interval_from {
        _ if interval == NOTHING => interval,
        IntervalFrom::Set => interval,
        IntervalFrom::Learned => format!("{interval} learned"),
        IntervalFrom::CrawlDelay => format!("{interval} Crawl-delay"),
    }
}

fn next_start(seen: &Seen) -> String {
    let full = seen.places().is_some_and(|most| seen.in_flight >= most);
    match seen.next_start {
        None => "on an answer".to_owned(),
        Some(next) => match next.ahead() {
            Some(ahead) => format!("in {}", span(ahead)),
            None if full || seen.trial == Some(Trial::InFlight) => "on an answer".to_owned(),
            None => "now".to_owned(),
        },
    }
}

fn in_flight(seen: &Seen) -> String {
    match seen.places() {
        Some(most) => format!("{} of {most}", seen.in_flight),
        None => number(seen.in_flight as usize),
    }
}

fn pause(seen: &Seen, clocks: &Clocks) -> String {
    let Some(pause) = &seen.pause else { return NOTHING.to_owned() };
    format!("until {} ({}): {}", pause.until.time_of_day(clocks), left(seen), why(seen))
}

fn short_pause(seen: &Seen) -> String {
    if seen.pause.is_some() { left(seen) } else { NOTHING.to_owned() }
}

fn left(seen: &Seen) -> String {
    span(seen.pause.and_then(|pause| pause.until.ahead()).unwrap_or_default())
}

/// What a pause came from.
pub(super) fn why(seen: &Seen) -> String {
    let Some(pause) = &seen.pause else { return String::new() };
    match (pause.status, pause.retry_after_secs) {
        (Some(status), Some(asked)) => format!("{status}, Retry-After {}", span(seconds(asked))),
        (Some(status), None) => format!("{status} without Retry-After"),
        (None, _) => "nobody says why".to_owned(),
    }
}

fn refused(seen: &Seen) -> String {
    match (seen.refusals.count, seen.refusals.last_status) {
        (0, _) => NOTHING.to_owned(),
        (count, Some(status)) => format!("{count} ({status})"),
        (count, None) => count.to_string(),
    }
}

fn lowered(seen: &Seen) -> String {
    let Some(lowered) = &seen.lowered else { return NOTHING.to_owned() };
    let [from, to] = [lowered.from_secs, lowered.to_secs].map(|secs| span(seconds(secs)));
    format!("{from} → {to}, {} by {}", short_lowered(seen), clean(&lowered.by))
}

fn short_lowered(seen: &Seen) -> String {
    let Some(lowered) = &seen.lowered else { return NOTHING.to_owned() };
    let status = lowered.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    format!("{status}, {} ago", span(lowered.at.ago()))
}

fn whole(secs: f64) -> String {
    if secs == 0.0 { NOTHING.to_owned() } else { span(seconds(secs)) }
}

fn number(number: usize) -> String {
    if number == 0 { NOTHING.to_owned() } else { number.to_string() }
}

impl Column {
    fn new(title: &'static str, cells: Vec<String>) -> Self {
        Self { title, cells, short: None, align: Align::Left }
    }

    fn right(mut self) -> Self {
        self.align = Align::Right;
        self
    }

    fn short(mut self, cells: Vec<String>) -> Self {
        self.short = Some(cells);
        self
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or_default().max(self.title.chars().count())
    }
}

/// Makes the columns as narrow as they must be: words first, then long names, then what matters least.
fn fit(columns: &mut Vec<Column>, width: usize) {
    for title in ["made slower", "pause", "interval"] {
        if total(columns) > width
            && let Some(column) = columns.iter_mut().find(|column| column.title == title)
            && let Some(short) = column.short.take()
        {
            column.cells = short;
        }
    }
    cut_names(columns, width, WIDE_NAME);
    for title in ["made slower", "waiting", "joined", "refused"] {
        if total(columns) > width {
            columns.retain(|column| column.title != title);
        }
    }
    cut_names(columns, width, NARROW_NAME);
}

/// Cuts the names of the first column, to `least` columns at most.
fn cut_names(columns: &mut [Column], width: usize, least: usize) {
    let over = total(columns).saturating_sub(width);
    if over > 0
        && let Some(names) = columns.first_mut()
    {
        let room = names.width().saturating_sub(over).max(least);
        names.cells.iter_mut().for_each(|name| *name = middle(name, room));
    }
}

fn total(columns: &[Column]) -> usize {
    columns.iter().map(Column::width).sum::<usize>() + GAP.len() * columns.len().saturating_sub(1)
}

fn lines(columns: &[Column], rows: usize, width: usize) -> Vec<String> {
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let line = |cell: &dyn Fn(&Column) -> String| {
        let cells = columns.iter().zip(&widths).map(|(column, width)| match column.align {
            Align::Left => format!("{:width$}", cell(column)),
            Align::Right => format!("{:>width$}", cell(column)),
        });
        let line = cells.collect::<Vec<_>>().join(GAP);
        line.trim_end().chars().take(width).collect::<String>()
    };
    let titles = format!("{BOLD}{}{PLAIN}", line(&|column| column.title.to_owned()));
    let rows = (0..rows).map(|row| line(&|column| column.cells[row].clone()));
    std::iter::once(titles).chain(rows).collect()
}

const NOTHING: &str = "-";
const GAP: &str = "  ";
/// Before anything is left out, names keep so many columns.
const WIDE_NAME: usize = 24;
/// And at last so many.
const NARROW_NAME: usize = 8;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::fake::{busy, clocks, known, listing, refused};
    use crate::commands::hosts::seen;
    use comity_store::Known;
    use std::time::Duration;

    fn text(scopes_known: &[Known], width: usize) -> String {
        let seen: Vec<Seen> = scopes_known.iter().map(|known| Seen::of(known, &clocks())).collect();
        plain(&scopes(&seen, &clocks(), width))
    }

    fn plain(lines: &[String]) -> String {
        lines.join("\n").replace(BOLD, "").replace(PLAIN, "")
    }

    #[test]
    fn a_table_says_what_holds_each_scope_back() {
        let mut slow = known("b.example");
        slow.interval = Duration::from_secs(10);
        slow.state.crawl_delay = Duration::from_secs(10);
        slow.most_in_flight = None;
        slow.next_start = crate::commands::hosts::fake::NOW.after(Duration::from_millis(1200));
        let told = text(&[refused("a.example"), slow, busy("busy.example")], 200);
        let wanted = "\
scope         interval          next start    in flight  pause                                         refused  waiting  made slower
a.example     1 s learned       in 12 s          0 of 1  until 13:48:12 (12 s): 429, Retry-After 30 s  3 (429)        2  0.5 s → 1 s, 429, 18 s ago by two:22
b.example     10 s Crawl-delay  in 1.2 s              -  -                                                   -        -  -
busy.example  1 s learned       on an answer     1 of 1  -                                                   -        -  -";
        assert_eq!(told, wanted, "\n{told}");
    }

    #[test]
    fn a_narrow_terminal_costs_words_before_numbers() {
        let told = text(&[refused("a-rather-long-name.of-a-host.example"), known("b.example")], 100);
        let wanted = "\
scope                        interval  next start  in flight  pause  refused  waiting  made slower
a-rather-long…-host.example  1 s       in 12 s        0 of 1  12 s   3 (429)        2  429, 18 s ago
b.example                    1 s       now            0 of 1  -            -        -  -";
        assert_eq!(told, wanted, "\n{told}");
    }

    #[test]
    fn a_table_fits_into_any_terminal() {
        let all = [refused("a-rather-long-name.of-a-host.example"), busy("b.example")];
        for width in [0, 1, 10, 20, 40, 60, 80, 120, 200] {
            let told = text(&all, width);
            assert!(told.lines().all(|line| line.chars().count() <= width), "{width}:\n{told}");
        }
        assert!(text(&all, 60).contains("in 12 s"));
    }

    #[test]
    fn nothing_needs_no_column() {
        let told = text(&[known("a.example")], 80);
        assert_eq!(
            told,
            "scope      interval     next start  in flight\na.example  1 s learned  now            0 of 1"
        );
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        let mut evil = refused("a\x1b[2J\r\n.example");
        if let Some(lowered) = &mut evil.lowered {
            lowered.by = "evil\x1b]0;title\x07".to_owned();
        }
        let told = text(&[evil], 300);
        assert!(!told.contains(['\x1b', '\r', '\x07']), "{told:?}");
        assert_eq!(told.lines().count(), 2);
        let mut listing = listing(Vec::new());
        listing.members[0].id = "m\x1b[1A".to_owned();
        let told = plain(&members(&seen::members(&listing, &clocks(), 9), 80));
        assert!(!told.contains('\x1b'), "{told:?}");
    }

    #[test]
    fn members_stand_with_what_they_hold() {
        let told = plain(&members(&seen::members(&listing(vec![busy("a.example")]), &clocks(), 9), 80));
        let wanted = "\
member  joined          last seen  in flight
one:1   3 min 20 s ago  1 s ago            1
two:22  3 min 20 s ago  2 s ago            0";
        assert_eq!(told, wanted, "\n{told}");
    }
}
