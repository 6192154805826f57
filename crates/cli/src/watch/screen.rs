//! A view as the lines of a screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::view::View;
use crate::held::columns::WATCHED;
use crate::list::table::{Table, shortened};

/// The lines besides the rows: the sums, the titles, and the line at the bottom.
const OTHER_LINES: usize = 3;

const KEYS: &str = "arrows, PgUp/PgDn, Home/End: scroll  s: sort  r: reverse  /: filter  q: end";

/// Returns the number of rows that fit into an area.
pub fn rows_in(area: Rect) -> usize {
    usize::from(area.height).saturating_sub(OTHER_LINES)
}

/// Draws a view.
pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let area = frame.area();
    let lines = lines(view, area.width.into(), area.height.into());
    let bold = Style::default().add_modifier(Modifier::BOLD);
    let reversed = Style::default().add_modifier(Modifier::REVERSED);
    let last = lines.len().saturating_sub(1);
    let lines = lines.into_iter().enumerate().map(|(at, line)| match at {
        0 => Line::styled(line, bold),
        1 if last > 1 => Line::styled(line, reversed),
        _ => Line::raw(line),
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// Returns the lines of a screen of this size.
fn lines(view: &View, width: usize, height: usize) -> Vec<String> {
    let rows = view.visible();
    let table = Table::new(WATCHED.iter(), &rows).on_screen(width);
    let mut lines = vec![shortened(&top(view), width)];
    // The reversed line of titles goes from edge to edge.
    lines.push(format!("{:<width$}", table.head()));
    lines.extend(rows.iter().map(|row| table.row(row)));
    lines.resize(height.saturating_sub(1).max(1), String::new());
    if height > 1 {
        lines.push(shortened(&bottom(view), width));
    }
    lines
}

fn top(view: &View) -> String {
    let (Some(listing), Some(sums)) = (view.listing(), view.sums()) else {
        return format!("{}  reading…", view.address);
    };
    let descends = view.sort.descends(view.reverse);
    let arrow = if descends { '↓' } else { '↑' };
    let order = format!("by {} {arrow}", view.sort.title);
    let matching = view.matching();
    let is_filtered = matching != listing.rows.len();
    let shown = is_filtered.then(|| format!("  {matching} shown"));
    let shown = shown.unwrap_or_default();
    format!("{}  {order}{shown}  {sums}", view.address)
}

/// Returns the filter, what is wrong, and the keys where they apply and nothing is wrong with the connection.
fn bottom(view: &View) -> String {
    let is_filtered = view.is_typing() || !view.filter.is_empty();
    let filter = is_filtered.then(|| format!("/{}", view.filter));
    let unreadable = view.listing().map_or(0, |listing| listing.unreadable.keys);
    let wrong = match &view.failure {
        Some(failure) => Some(format!("connecting again: {failure}")),
        None => (unreadable > 0).then(|| format!("{unreadable} unreadable")),
    };
    let has_keys = view.failure.is_none() && !view.is_typing();
    let keys = has_keys.then(|| KEYS.to_owned());
    let parts = [filter, wrong, keys].into_iter().flatten();
    parts.collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ratatui::crossterm::event::KeyCode;

    use super::*;
    use crate::held::read::{Listing, Unreadable};
    use crate::held::row::Row;

    /// Returns a view of three keys and some that are unreadable, after these letters; `!` stands for Enter.
    fn view(unreadable: u64, typed: &str) -> View {
        let mut view = View::new("server", &WATCHED[0], false);
        let rows = ["abc", "abd", "b"].map(|key| Row {
            key: key.into(),
            ..Row::default()
        });
        let listing = Listing {
            rows: rows.into(),
            unreadable: Unreadable {
                keys: unreadable,
                reason: None,
            },
        };
        view.update(listing, Instant::now());
        for letter in typed.chars() {
            let key = match letter {
                '!' => KeyCode::Enter,
                letter => KeyCode::Char(letter),
            };
            view.press(key.into());
        }
        view
    }

    #[test]
    fn the_last_line_has_the_filter_and_what_is_wrong() {
        for (unreadable, typed, failure, line) in [
            (0, "", None, KEYS),
            (0, "/", None, "/"),
            (0, "/ab", None, "/ab"),
            (0, "/ab!", None, &format!("/ab  {KEYS}")),
            (1, "", None, &format!("1 unreadable  {KEYS}")),
            (1, "/ab", None, "/ab  1 unreadable"),
            (1, "/ab!", None, &format!("/ab  1 unreadable  {KEYS}")),
            (1, "", Some("lost"), "connecting again: lost"),
            (1, "/ab", Some("lost"), "/ab  connecting again: lost"),
            (0, "/ab!", Some("lost"), "/ab  connecting again: lost"),
        ] {
            let mut view = view(unreadable, typed);
            view.failure = failure.map(str::to_owned);
            assert_eq!(bottom(&view), line, "{unreadable} {typed} {failure:?}");
        }
    }

    #[test]
    fn the_first_line_has_the_order_and_the_sums() {
        assert_eq!(
            top(&View::new("server", &WATCHED[0], false)),
            "server  reading…"
        );
        for (typed, start) in [
            ("", "server  by key ↑  3 keys, "),
            ("r", "server  by key ↓  3 keys, "),
            ("/ab", "server  by key ↑  2 shown  3 keys, "),
        ] {
            let line = top(&view(0, typed));
            assert!(line.starts_with(start), "{line}");
        }
    }

    /// The lines fill the screen, and the rows among them are those that it has room for.
    #[test]
    fn a_screen_of_any_height_has_the_rows_that_fit() {
        for height in 1..9 {
            let mut view = view(0, "");
            let room = rows_in(Rect::new(0, 0, 80, height));
            view.resize(room);
            let lines = lines(&view, 80, height.into());
            assert_eq!(lines.len(), usize::from(height));
            let keys = ["abc", "abd", "b"];
            let rows = keys.map(|key| {
                lines
                    .iter()
                    .any(|line| line.starts_with(&format!("{key} ")))
            });
            assert_eq!(rows, [0, 1, 2].map(|at| at < room), "{height}");
            let is_last = lines.last().is_some_and(|line| line.starts_with("arrows"));
            assert_eq!(is_last, height > 1, "{height}");
        }
    }
}
