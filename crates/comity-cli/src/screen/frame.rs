//! Lines at the bottom of a terminal, drawn over again in place.

/// What stands on the screen now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    lines: Vec<String>,
    columns: usize,
}

impl Frame {
    /// What to write so that `lines` stand where the last ones stood; nothing where they stand there already. They have
    /// to be narrower than the terminal's `columns`.
    pub(crate) fn draw(&mut self, lines: Vec<String>, columns: usize) -> String {
        if self.lines == lines && self.columns == columns {
            return String::new();
        }
        let mut text = self.erase(columns);
        text.push_str(&lines.join("\r\n"));
        (self.lines, self.columns) = (lines, columns);
        text
    }

    /// What to write so that nothing stands there, on a terminal that has so many columns by now.
    pub(crate) fn erase(&mut self, columns: usize) -> String {
        // A terminal that was made narrower has wrapped the lines that were wider; padding them would make all of them so.
        let rows: usize = self.lines.drain(..).map(|line| width(&line).div_ceil(columns.max(1)).max(1)).sum();
        match rows {
            0 => String::new(),
            1 => format!("\r{CLEAR_BELOW}"),
            rows => format!("\r\x1b[{}A{CLEAR_BELOW}", rows - 1),
        }
    }
}

/// Columns a line takes; its colours take none.
fn width(line: &str) -> usize {
    anstream::adapter::strip_str(line).to_string().chars().count()
}

const CLEAR_BELOW: &str = "\x1b[J";

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_are_drawn_over_the_last_ones() {
        let mut frame = Frame::default();
        assert_eq!(frame.draw(lines(&["a", "b"]), 80), "a\r\nb");
        assert_eq!(frame.draw(lines(&["a", "b"]), 80), "", "nothing has changed");
        assert_eq!(frame.draw(lines(&["c"]), 80), "\r\x1b[1A\x1b[Jc");
        assert_eq!(frame.erase(80), "\r\x1b[J");
        assert_eq!(frame.erase(80), "");
    }

    #[test]
    fn a_narrower_terminal_has_wrapped_what_was_wider() {
        let mut frame = Frame::default();
        frame.draw(lines(&[&"x".repeat(70), "short", &format!("\x1b[32m{}\x1b[0m", "y".repeat(50))]), 80);
        // 2 rows, 1 and 1: colours take no column.
        assert_eq!(frame.clone().erase(50), "\r\x1b[3A\x1b[J");
        assert_eq!(frame.clone().erase(40), "\r\x1b[4A\x1b[J");
        assert_eq!(frame.draw(lines(&["z"]), 120), "\r\x1b[2A\x1b[Jz", "a wider one wraps nothing");
    }
}
