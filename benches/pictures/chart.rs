//! Charts as SVG, with a white background, so that they are readable on a dark page.

use std::fmt::Write as _;

/// Colours that colour-blind readers can distinguish (Okabe and Ito 2008).
pub const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];
const GRID: &str = "#d9d9d9";
const TEXT: &str = "#222222";
const ROW: f64 = 22.0;

/// An axis, which maps values to pixels.
pub struct Axis {
    /// The values at both ends.
    pub ends: (f64, f64),
    pub logarithmic: bool,
    /// The positions of both ends.
    pub pixels: (f64, f64),
    /// Values that have a line, with their labels.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        let (low, high, value) = if self.logarithmic {
            (low.ln(), high.ln(), value.ln())
        } else {
            (low, high, value)
        };
        let share = (value - low) / (high - low);
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }
}

/// A picture under construction.
pub struct Svg {
    elements: String,
    width: f64,
    height: f64,
}

impl Svg {
    pub fn new(width: f64, height: f64) -> Self {
        Self {
            elements: String::new(),
            width,
            height,
        }
    }

    pub fn add(&mut self, element: &str) {
        writeln!(self.elements, "{element}").expect("a String takes all");
    }

    pub fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        self.add(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        self.add(&format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" {style}/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Draws a mark whose shape identifies its series.
    pub fn mark(&mut self, x: f64, y: f64, series: usize, colour: &str) {
        self.add(&match series {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>"),
            1 => format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\" fill=\"{colour}\"/>",
                x - 4.5,
                y - 4.5
            ),
            _ => format!(
                "<path d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6z\" fill=\"{colour}\"/>",
                y - 6.0
            ),
        });
    }

    /// Draws the marks of all series side by side, each with the name of its series.
    fn legend(&mut self, x: f64, y: f64, series: &[(usize, &str, &str)]) {
        let mut x = x;
        for (mark, name, colour) in series {
            self.mark(x + 6.0, y - 4.5, *mark, colour);
            self.text(x + 18.0, y, "start", name);
            #[allow(clippy::cast_precision_loss, reason = "names are short")]
            let width = 8.0 * name.len() as f64;
            x += 44.0 + width;
        }
    }

    pub fn end(self) -> String {
        let Self {
            elements,
            width,
            height,
        } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"{TEXT}\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{elements}</svg>\n"
        )
    }
}

/// A curve. Its name follows its last point, `name_at` pixels lower.
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub name_at: f64,
}

/// Draws curves over two axes, and single marks, whose names are in a legend.
pub fn curves(
    title: &str,
    x: &Axis,
    y: &Axis,
    curves: &[Curve],
    marks: &[(f64, f64, &str)],
) -> String {
    let mut svg = Svg::new(840.0, 400.0);
    svg.text(16.0, 22.0, "start", title);
    let grid = format!("stroke=\"{GRID}\"");
    for (value, name) in &x.ticks {
        let at = x.at(*value);
        svg.line((at, y.pixels.0), (at, y.pixels.1), &grid);
        svg.text(at, y.pixels.0 + 20.0, "middle", name);
    }
    for (value, name) in &y.ticks {
        let at = y.at(*value);
        svg.line((x.pixels.0, at), (x.pixels.1, at), &grid);
        svg.text(x.pixels.0 - 8.0, at + 4.0, "end", name);
    }
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let points = curve.points.iter();
        let points: Vec<String> = points
            .map(|(a, b)| format!("{:.1},{:.1}", x.at(*a), y.at(*b)))
            .collect();
        svg.add(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        ));
        let (_, last) = curve.points[curve.points.len() - 1];
        let name_y = y.at(last) + 4.0 + curve.name_at;
        svg.text(x.pixels.1 + 8.0, name_y, "start", &curve.name);
    }
    for (series, (a, b, _)) in marks.iter().enumerate() {
        svg.mark(x.at(*a), y.at(*b), series + 1, TEXT);
    }
    let names = marks.iter().enumerate();
    let names: Vec<_> = names
        .map(|(series, (_, _, name))| (series + 1, *name, TEXT))
        .collect();
    svg.legend(400.0, 22.0, &names);
    svg.end()
}

/// A row of [`dots`]: its name, a value for each series, and a goal.
pub struct Row {
    pub name: String,
    pub values: Vec<Option<f64>>,
    pub goal: Option<f64>,
}

/// Draws a row for each case, with a mark for each series on a common logarithmic axis, to the right of names that are
/// `names` pixels wide. 1 is a line, and a goal is a stroke.
pub fn dots(
    title: &str,
    names: f64,
    ends: (f64, f64),
    ticks: &[&str],
    series: &[&str],
    rows: &[Row],
) -> String {
    let pixels = (names, names + 460.0);
    let ticks = ticks
        .iter()
        .map(|tick| (tick.parse().expect("a number"), (*tick).to_owned()));
    let x = Axis {
        ends,
        logarithmic: true,
        pixels,
        ticks: ticks.collect(),
    };
    let top = 64.0;
    #[allow(clippy::cast_precision_loss, reason = "a picture of few rows")]
    let line_of = |index: usize| top + ROW * (index as f64 + 0.5);
    let bottom = line_of(rows.len());
    let mut svg = Svg::new(pixels.1 + 30.0, bottom + 28.0);
    svg.text(16.0, 22.0, "start", title);
    let legend = series.iter().zip(COLOURS).enumerate();
    let legend: Vec<_> = legend
        .map(|(series, (name, colour))| (series, *name, colour))
        .collect();
    svg.legend(names, 48.5, &legend);
    for (value, name) in &x.ticks {
        let colour = if name == "1" { TEXT } else { GRID };
        let at = x.at(*value);
        svg.line(
            (at, top - 4.0),
            (at, bottom),
            &format!("stroke=\"{colour}\""),
        );
        svg.text(at, bottom + 18.0, "middle", name);
    }
    for (index, row) in rows.iter().enumerate() {
        let y = line_of(index);
        svg.text(names - 14.0, y + 4.5, "end", &row.name);
        if let Some(goal) = row.goal {
            let at = x.at(goal);
            let style = format!("stroke=\"{TEXT}\" stroke-width=\"2\"");
            svg.line((at, y - 9.0), (at, y + 9.0), &style);
        }
        // The first series is drawn last, on top.
        for (series, value) in row.values.iter().enumerate().rev() {
            if let Some(value) = value {
                svg.mark(x.at(*value), y, series, COLOURS[series]);
            }
        }
    }
    svg.end()
}

/// A panel of [`panels`]: a curve over time. The first and the last tick are the ends of its axis.
pub struct Panel {
    pub title: &'static str,
    pub points: Vec<(f64, f64)>,
    pub ticks: Vec<(f64, String)>,
}

/// Draws panels in two columns, all over the same time in seconds.
pub fn panels(title: &str, panels: &[Panel]) -> String {
    let (width, height) = (420.0, 190.0);
    #[allow(clippy::cast_precision_loss, reason = "a picture of few panels")]
    let lines = panels.len().div_ceil(2) as f64;
    let mut svg = Svg::new(2.0 * width, 36.0 + lines * height);
    svg.text(16.0, 22.0, "start", title);
    let grid = format!("stroke=\"{GRID}\"");
    for (index, panel) in panels.iter().enumerate() {
        #[allow(clippy::cast_precision_loss, reason = "a picture of few panels")]
        let (left, top) = (
            (index % 2) as f64 * width,
            36.0 + (index / 2) as f64 * height,
        );
        let last = panel.points.last().map_or(0.0, |(seconds, _)| *seconds);
        let x = Axis {
            ends: (0.0, last),
            logarithmic: false,
            pixels: (left + 64.0, left + width - 24.0),
            ticks: [0.0, last / 2.0, last]
                .map(|at| (at, format!("{at} s")))
                .to_vec(),
        };
        let ends = [0, panel.ticks.len() - 1].map(|at| panel.ticks[at].0);
        let y = Axis {
            ends: (ends[0], ends[1]),
            logarithmic: false,
            pixels: (top + height - 34.0, top + 30.0),
            ticks: panel.ticks.clone(),
        };
        svg.text(left + 16.0, top + 18.0, "start", panel.title);
        for (value, name) in &x.ticks {
            svg.text(x.at(*value), y.pixels.0 + 18.0, "middle", name);
        }
        for (value, name) in &y.ticks {
            let at = y.at(*value);
            svg.line((x.pixels.0, at), (x.pixels.1, at), &grid);
            svg.text(x.pixels.0 - 8.0, at + 4.0, "end", name);
        }
        let points = panel.points.iter();
        let points: Vec<String> = points
            .map(|(a, b)| format!("{:.1},{:.1}", x.at(*a), y.at(*b)))
            .collect();
        svg.add(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
            points.join(" "),
            COLOURS[0]
        ));
    }
    svg.end()
}
