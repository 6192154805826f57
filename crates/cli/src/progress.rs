//! How far a long step is: a bar on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};

/// How often a line is written where there is no terminal.
const LINE: Duration = Duration::from_secs(5);

/// What is shown while the program works.
#[derive(Clone, Copy, PartialEq)]
pub enum Show {
    Nothing,
    Lines,
    Bar,
}

impl Show {
    pub fn on(quiet: bool) -> Self {
        if quiet {
            Self::Nothing
        } else if io::stderr().is_terminal() {
            Self::Bar
        } else {
            Self::Lines
        }
    }
}

/// A step whose end is known if it knows a total.
pub struct Progress {
    what: &'static str,
    unit: &'static str,
    total: Option<u64>,
    bar: Option<ProgressBar>,
    show: Show,
    start: Instant,
    last: Instant,
}

impl Progress {
    /// A step that counts in units, and knows how much of a total it has done.
    pub fn new(show: Show, what: &'static str, unit: &'static str, total: Option<u64>) -> Self {
        let template = if total.is_some() {
            "{prefix} [{bar:30}] {percent:>3} %  {msg}, {eta} left"
        } else {
            "{prefix} {spinner}  {msg}"
        };
        let bar = (show == Show::Bar).then(|| {
            let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
            let style = ProgressStyle::with_template(template).expect("a good template");
            bar.with_style(style.progress_chars("=> "))
                .with_prefix(what)
        });
        let now = Instant::now();
        Self {
            what,
            unit,
            total,
            bar,
            show,
            start: now,
            last: now,
        }
    }

    /// So much of the total is done, and this many units with it.
    pub fn at(&mut self, done: u64, units: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(self.speed(units));
            bar.set_position(done);
        } else if self.show == Show::Lines && self.last.elapsed() >= LINE {
            self.last = Instant::now();
            let left = self.total.filter(|_| done > 0).map(|total| {
                let done = done.min(total);
                let (done, total) = (to_double(done), to_double(total));
                let left = self.start.elapsed().mul_f64((total - done) / done);
                let percent = done / total * 100.0;
                format!(", {percent:.0} %, {} left", HumanDuration(left))
            });
            let left = left.unwrap_or_default();
            eprintln!("{}: {}{left}", self.what, self.speed(units));
        }
    }

    /// All is done.
    pub fn end(self, units: u64) {
        let speed = self.speed(units);
        if let Some(bar) = self.bar {
            bar.finish_with_message(speed);
        } else if self.show == Show::Lines {
            eprintln!("{}: {speed}, done", self.what);
        }
    }

    fn speed(&self, units: u64) -> String {
        let second = to_double(units) / self.start.elapsed().as_secs_f64().max(1e-3);
        let (count, unit) = (HumanCount(units), self.unit);
        if second >= 1e6 {
            format!("{count} {unit}, {:.1} M/s", second / 1e6)
        } else {
            format!("{count} {unit}, {second:.0}/s")
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a few digits are shown")]
fn to_double(number: u64) -> f64 {
    number as f64
}
