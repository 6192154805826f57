//! Sessions as SVG, in the style of a terminal: light or dark, as the reader's system is.

use std::fmt::Write as _;

/// The size of a character, and of the space around all of them.
const WIDTH: f64 = 7.25;
const HEIGHT: f64 = 17.0;
const MARGIN: f64 = 14.0;

/// The columns after which lines are continued below.
const COLUMNS: usize = 104;

const STYLE: &str = ".back{fill:#ffffff;stroke:#d0d7de}.text{fill:#1f2328}.typed{fill:#0550ae;font-weight:bold}\n\
    @media (prefers-color-scheme: dark){.back{fill:#0d1117;stroke:#30363d}.text{fill:#e6edf3}.typed{fill:#79c0ff}}";

/// Draws a session. Lines that begin with `$ ` were typed.
#[allow(clippy::cast_precision_loss, reason = "a picture of few lines")]
pub fn session(text: &str) -> String {
    let lines: Vec<(bool, String)> = text.lines().flat_map(continued).collect();
    let columns = lines.iter().map(|(_, line)| line.chars().count()).max();
    let width = 2.0 * MARGIN + WIDTH * columns.unwrap_or(0) as f64;
    let height = 2.0 * MARGIN + HEIGHT * lines.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', \
         monospace\" font-size=\"12\">\n<style>{STYLE}</style>\n\
         <rect class=\"back\" x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"6\"/>\n",
        width - 1.0,
        height - 1.0
    );
    for (at, (typed, line)) in lines.iter().enumerate() {
        let y = MARGIN + HEIGHT * (at as f64 + 0.75);
        let class = if *typed { "typed" } else { "text" };
        let line = line.replace('&', "&amp;").replace('<', "&lt;");
        // Every font gets the same width, so that columns are straight.
        let length = WIDTH * line_width(&line);
        writeln!(
            svg,
            "<text class=\"{class}\" x=\"{MARGIN:.0}\" y=\"{y:.1}\" xml:space=\"preserve\" textLength=\"{length:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\">{line}</text>"
        )
        .expect("a String takes all");
    }
    svg + "</svg>\n"
}

#[allow(clippy::cast_precision_loss, reason = "a line is short")]
fn line_width(line: &str) -> f64 {
    line.replace("&amp;", "&")
        .replace("&lt;", "<")
        .chars()
        .count() as f64
}

/// Breaks a line at spaces, and indents what is continued.
fn continued(line: &str) -> Vec<(bool, String)> {
    let typed = line.starts_with("$ ");
    let mut rest = line.to_owned();
    let mut lines = Vec::new();
    while rest.chars().count() > COLUMNS {
        let end = rest
            .char_indices()
            .nth(COLUMNS)
            .map_or(rest.len(), |(at, _)| at);
        let at = rest[..end].rfind(' ').filter(|at| *at > 8).unwrap_or(end);
        let next = format!("    {}", rest[at..].trim_start());
        rest.truncate(at);
        lines.push((typed, rest));
        rest = next;
    }
    lines.push((typed, rest));
    lines
}
