//! Pictures of a plan: curves, as numbers.

use serde_json::{Value, json};

use crate::report::to_double;

/// Curves over common axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// What the picture shows.
    pub title: String,
    /// What the horizontal axis shows.
    pub x: &'static str,
    /// Where the request is on the horizontal axis.
    pub at: f64,
    /// The requested value on the vertical axis, if there is one.
    pub requested: Option<f64>,
    /// The curves, that of the request first.
    pub curves: Vec<Curve>,
}

/// A curve: a name, and points to be joined by straight lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name.
    pub name: String,
    /// The points, by rising `x`.
    pub points: Vec<(f64, f64)>,
}

impl Picture {
    /// Returns the picture as JSON.
    pub fn to_json(&self) -> Value {
        let curves = self.curves.iter();
        let curves = curves.map(|curve| json!({ "name": curve.name, "points": curve.points }));
        json!({
            "title": self.title,
            "x": self.x,
            "at": self.at,
            "requested": self.requested,
            "curves": curves.collect::<Vec<_>>(),
        })
    }
}

impl Curve {
    /// Makes a curve of points.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            points: points.into_iter().collect(),
        }
    }

    /// Returns the curve of the bytes of an object that takes `bytes` until it holds `items`, for each pair of these.
    pub fn of_steps(name: &str, steps: impl IntoIterator<Item = (u64, u64)>, end: f64) -> Self {
        let (mut points, mut before) = (Vec::new(), 0.0);
        for (items, bytes) in steps {
            let items = to_double(items).min(end);
            points.extend([(before, to_double(bytes)), (items, to_double(bytes))]);
            before = items;
        }
        Self::new(name, points)
    }

    /// Returns the curve without the points beyond `end`. A line that crosses it ends there.
    #[must_use]
    pub fn until(mut self, end: f64) -> Self {
        let inside = self.points.iter().take_while(|(x, _)| *x <= end).count();
        if let (Some(&(x0, y0)), Some(&(x1, y1))) =
            (self.points[..inside].last(), self.points.get(inside))
        {
            let share = (end - x0) / (x1 - x0);
            self.points.truncate(inside);
            self.points.push((end, y0 + share * (y1 - y0)));
        }
        self
    }
}

/// Returns the whole number below a positive one.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a double saturates"
)]
pub const fn whole(number: f64) -> u64 {
    number as u64
}

/// Returns a picture of a sketch's bytes, for a quarter to four times of a parameter's value. Values without a sketch are
/// left out.
pub fn sweep(
    title: &str,
    x: &'static str,
    at: f64,
    bytes: impl Fn(f64) -> Option<u64>,
) -> Vec<Picture> {
    let factors = (2..=32).map(|eighths| f64::from(eighths) / 8.0);
    let points = factors.filter_map(|factor| Some((at * factor, to_double(bytes(at * factor)?))));
    vec![Picture {
        title: title.to_owned(),
        x,
        at,
        requested: None,
        curves: vec![Curve::new("bytes", points)],
    }]
}
