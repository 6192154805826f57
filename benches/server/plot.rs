//! The ratios as a picture.

use std::fmt::Write as _;

use crate::{Goal, Line};

const LABELS: f64 = 520.0;
const PLOT: f64 = 480.0;
const ROW: f64 = 26.0;
/// The axis is logarithmic, between these ratios.
const AXIS: (f64, f64) = (0.05, 50.0);

fn x(ratio: f64) -> f64 {
    let (low, high) = AXIS;
    let share = (ratio.clamp(low, high) / low).ln() / (high / low).ln();
    LABELS + share * PLOT
}

/// A bar for each line, from 1 to its ratio, and a stroke where its goal is.
#[allow(clippy::cast_precision_loss, reason = "a picture of few rows")]
pub(crate) fn svg(lines: &[Line]) -> String {
    let height = ROW * (lines.len() as f64 + 2.0);
    let width = LABELS + PLOT + 80.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut add = |element: &str| writeln!(svg, "{element}").expect("a String takes all");
    for (tick, colour) in [
        (0.1, "lightgrey"),
        (0.5, "lightgrey"),
        (1.0, "black"),
        (2.0, "lightgrey"),
        (5.0, "lightgrey"),
        (20.0, "lightgrey"),
    ] {
        let (x, bottom) = (x(tick), height - ROW);
        add(&format!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{ROW}\" y2=\"{bottom}\" stroke=\"{colour}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
            height - 8.0
        ));
    }
    add(&format!(
        "<text x=\"{LABELS}\" y=\"16\">ratio; the stroke is the goal, green is reached</text>"
    ));
    for (index, line) in lines.iter().enumerate() {
        let y = ROW * (index as f64 + 1.0);
        let (goal, reached) = match line.goal {
            Goal::AtMost(goal) => (goal, line.ratio <= goal),
            Goal::AtLeast(goal) => (goal, line.ratio >= goal),
        };
        let base = line.compared_with.split(':').next().unwrap_or_default();
        let (from, to) = (x(line.ratio).min(x(1.0)), x(line.ratio).max(x(1.0)));
        let colour = if reached { "seagreen" } else { "darkorange" };
        let label = format!("{} / {base}", line.case);
        let label = label.replace('&', "&amp;").replace('<', "&lt;");
        add(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LABELS - 8.0,
            y + 17.0
        ));
        add(&format!(
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" fill=\"{colour}\"/>",
            y + 6.0,
            (to - from).max(1.0)
        ));
        add(&format!(
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\" stroke=\"black\" stroke-width=\"2\"/>",
            x(goal),
            y + 2.0,
            y + 24.0
        ));
        add(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\">{:.2}</text>",
            LABELS + PLOT + 12.0,
            y + 17.0,
            line.ratio
        ));
    }
    svg + "</svg>\n"
}
