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

/// Returns the number of rows that fit into an area: at least one.
pub fn rows_in(area: Rect) -> usize {
    usize::from(area.height).saturating_sub(OTHER_LINES).max(1)
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

fn bottom(view: &View) -> String {
    let unreadable = view.listing().map_or(0, |listing| listing.unreadable.keys);
    match &view.failure {
        _ if view.is_typing() => format!("/{}", view.filter),
        Some(failure) => format!("connecting again: {failure}"),
        None if unreadable > 0 => format!("{unreadable} unreadable  {KEYS}"),
        None if view.filter.is_empty() => KEYS.to_owned(),
        None => format!("/{}  {KEYS}", view.filter),
    }
}
