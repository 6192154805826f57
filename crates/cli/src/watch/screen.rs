//! A view as the lines of a screen.

use ratatui::Frame;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::view::View;
use crate::list::columns::Column;
use crate::list::output::{GAP, fitting, padded, shortened, sums};

/// The lines besides the rows: the sums, the titles, and the line at the bottom.
const OTHER_LINES: usize = 3;

const KEYS: &str = "arrows, PgUp/PgDn, Home/End: scroll  s: sort  r: reverse  /: filter  q: end";

/// Draws a view, and sets the number of rows that fit.
pub fn draw(frame: &mut Frame<'_>, view: &mut View) {
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
pub fn lines(view: &mut View, width: usize, height: usize) -> Vec<String> {
    view.page = height.saturating_sub(OTHER_LINES).max(1);
    view.keep_in_range();
    let columns = Column::WATCHED;
    let rows = view.rows();
    let seen = rows.iter().skip(view.top).take(view.page);
    let cells = seen.map(|row| {
        columns
            .map(|column| column.text(row, view.change(row)))
            .to_vec()
    });
    let cells: Vec<Vec<String>> = cells.collect();
    let widths = fitting(&columns, &cells, width);
    let line = |texts: &[String]| {
        let texts = columns.iter().zip(texts).zip(&widths);
        let texts =
            texts.map(|((column, text), width)| padded(*column, &shortened(text, *width), *width));
        texts.collect::<Vec<_>>().join(&" ".repeat(GAP))
    };
    let titles = columns.map(|column| column.title().to_owned());
    let mut lines = vec![shortened(&top(view, rows.len()), width)];
    // The reversed line of titles goes from edge to edge.
    lines.push(format!("{:<width$}", line(&titles)));
    lines.extend(cells.iter().map(|texts| line(texts)));
    lines.truncate(height.saturating_sub(1).max(1));
    while lines.len() + 1 < height {
        lines.push(String::new());
    }
    if height > 1 {
        lines.push(shortened(&bottom(view), width));
    }
    lines
}

fn top(view: &View, matching: usize) -> String {
    let Some(listing) = view.listing() else {
        return format!("{}  reading…", view.address);
    };
    let descends = view.sort.is_text() == view.reverse;
    let arrow = if descends { '↓' } else { '↑' };
    let order = format!("by {} {arrow}", view.sort.title());
    let shown = if matching == listing.rows.len() {
        String::new()
    } else {
        format!("  {matching} shown")
    };
    format!("{}  {order}{shown}  {}", view.address, sums(&listing.rows))
}

fn bottom(view: &View) -> String {
    if view.is_typing() {
        format!("/{}", view.filter)
    } else if let Some(failure) = &view.failure {
        format!("connecting again: {failure}")
    } else if let Some(unreadable) = view
        .listing()
        .map(|listing| listing.unreadable.keys)
        .filter(|n| *n > 0)
    {
        format!("{unreadable} unreadable  {KEYS}")
    } else if view.filter.is_empty() {
        KEYS.to_owned()
    } else {
        format!("/{}  {KEYS}", view.filter)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use unicode_width::UnicodeWidthStr;

    use super::super::feed::Update;
    use super::super::view::Action;
    use super::super::view::tests::listing;
    use super::*;

    fn view() -> View {
        let mut view = View::new("127.0.0.1:6379", Column::Items, false);
        let keys: Vec<String> = (0..10)
            .map(|number| format!("a-long-name-of-key-{number}"))
            .collect();
        let items: Vec<(&str, u64)> = keys.iter().map(|key| &key[..]).zip(100..).collect();
        view.update(Update::Listing(listing(&items), Instant::now()));
        view
    }

    #[test]
    fn every_size_is_filled_and_nothing_overflows() {
        let mut view = view();
        for (width, height) in [(200, 50), (80, 24), (40, 10), (20, 5), (8, 2), (1, 1)] {
            let lines = lines(&mut view, width, height);
            assert_eq!(lines.len(), height, "{width}×{height}");
            for line in &lines {
                assert!(line.width() <= width, "{width}×{height}: {line:?}");
            }
        }
    }

    #[test]
    fn a_small_screen_has_keys_and_the_first_columns() {
        let mut view = view();
        let lines = lines(&mut view, 20, 5);
        assert_eq!(lines[1], "key        type     ");
        // Two rows fit, and the largest number of items is on top.
        assert_eq!(lines[2], "a-lo…ey-9  bloomfltr");
        assert_eq!(lines[3], "a-lo…ey-8  bloomfltr");
        assert_eq!(view.page, 2);
    }

    #[test]
    fn the_screen_says_what_is_going_on() {
        let mut view = View::new("server", Column::Key, false);
        assert_eq!(lines(&mut view, 80, 5)[0], "server  reading…");
        view = self::view();
        let text = |view: &mut View| lines(view, 200, 24);
        let top = "127.0.0.1:6379  by items ↓  10 keys, 0 bytes: 10 bloomfltr";
        assert_eq!(text(&mut view)[0], top);
        assert_eq!(text(&mut view)[23], KEYS);
        for action in [Action::Filter, Action::Type('7')] {
            view.act(action);
        }
        assert_eq!(text(&mut view)[23], "/7");
        assert!(text(&mut view)[0].contains("by items ↓  1 shown"));
        view.act(Action::Accept);
        view.update(Update::Failed("no route".to_owned()));
        assert_eq!(text(&mut view)[23], "connecting again: no route");
        // The rows stay.
        assert!(text(&mut view)[2].starts_with("a-long-name-of-key-7  bloomfltr    107"));
    }
}
