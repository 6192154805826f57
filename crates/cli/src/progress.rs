//! The progress of a long step: a bar on a terminal, elsewhere a line every few seconds.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::report::{double, warn};

/// The time between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(5);

/// The form in which progress is shown.
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

/// A step that counts units, and may know the part of a total that is done.
pub struct Progress {
    /// Hidden where there is no terminal.
    bar: ProgressBar,
    unit: &'static str,
    show: Show,
    last: Instant,
    shows_bytes: bool,
}

impl Progress {
    /// Begins a step. The parts of the total may be others than the units: a file's bytes, while its items are counted.
    pub fn new(show: Show, what: &'static str, unit: &'static str, total: Option<u64>) -> Self {
        // Files of the kernel have no size, but contents.
        let total = total.filter(|total| *total > 0);
        let template = if total.is_some() {
            "{prefix} [{bar:30}] {percent:>3} %  {msg}, {eta} left"
        } else {
            "{prefix} {spinner}  {msg}"
        };
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        let target = match show {
            Show::Bar => ProgressDrawTarget::stderr(),
            Show::Nothing | Show::Lines => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(total, target).with_prefix(what);
        Self {
            bar: bar.with_style(style.progress_chars("=> ")),
            unit,
            show,
            last: Instant::now(),
            shows_bytes: false,
        }
    }

    /// Shows also how many parts of the total are done in a second: they are bytes.
    pub fn with_bytes(mut self) -> Self {
        self.shows_bytes = true;
        self
    }

    /// Shows that this part of the total is done, and the number of units in it.
    pub fn at(&mut self, done: u64, units: u64) {
        self.bar.set_position(done);
        if self.show == Show::Bar {
            self.bar.set_message(self.speed(units));
        } else if self.show == Show::Lines && self.last.elapsed() >= LINE {
            self.last = Instant::now();
            let total = self.bar.length();
            let left = total.and_then(|total| left(done, total, self.bar.elapsed()));
            let left = left.map_or(String::new(), |(percent, time)| {
                format!(", {percent:.0} %, {} left", HumanDuration(time))
            });
            let speed = self.speed(units);
            warn(format_args!("{}: {speed}{left}", self.bar.prefix()));
        }
    }

    /// Shows that the step is done.
    pub fn end(self, units: u64) {
        let speed = self.speed(units);
        if self.show == Show::Lines {
            warn(format_args!("{}: {speed}, done", self.bar.prefix()));
        }
        self.bar.finish_with_message(speed);
    }

    fn speed(&self, units: u64) -> String {
        let second = double(units) / self.bar.elapsed().as_secs_f64().max(1e-3);
        let speed = match second {
            1e6.. => format!("{:.1} M/s", second / 1e6),
            _ => format!("{second:.0}/s"),
        };
        let speed = format!("{} {}, {speed}", HumanCount(units), self.unit);
        if !self.shows_bytes {
            return speed;
        }
        let bytes = double(self.bar.position()) / self.bar.elapsed().as_secs_f64().max(1e-3);
        format!("{speed}, {:.0} MB/s", bytes / 1e6)
    }
}

/// Returns the done part of a total in percent, and the time that the rest takes at the same speed. `None` before anything is
/// done.
fn left(done: u64, total: u64, elapsed: Duration) -> Option<(f64, Duration)> {
    let (done, total) = (double(done.min(total)), double(total));
    let time = Duration::try_from_secs_f64(elapsed.as_secs_f64() * (total - done) / done);
    (done > 0.0).then(|| (100.0 * done / total, time.unwrap_or(Duration::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_for_each_part() {
        let seconds = Duration::from_secs;
        for (done, total, left_then) in [
            (0, 100, None),
            (1, 100, Some((1.0, seconds(990)))),
            (25, 100, Some((25.0, seconds(30)))),
            (100, 100, Some((100.0, seconds(0)))),
            // A file may grow.
            (150, 100, Some((100.0, seconds(0)))),
        ] {
            assert_eq!(left(done, total, seconds(10)), left_then, "{done}");
        }
        let (_, time) = left(1, u64::MAX, seconds(10)).expect("something is done");
        assert_eq!(time, Duration::MAX);
    }

    #[test]
    fn a_file_without_a_size_has_no_total() {
        let mut progress = Progress::new(Show::Lines, "reading", "records", Some(0));
        progress.last -= LINE;
        progress.at(1, 1);
        assert!(progress.last.elapsed() < LINE);
    }
}
