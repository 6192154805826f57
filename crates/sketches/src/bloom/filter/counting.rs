//! Filters of counters: adding, counting and removing items.

use crate::hash::Probe;
use crate::number::{to_double, to_whole};

use super::geometry::DRIFT;
use super::single::{Contents, Filter};
use super::{counters, rate};

/// From [`MANY`] items up to the capacity, a number of items is compared with the counters if it is a multiple of this.
const CHECKED: u64 = 16;
/// The least number of items that is not compared each time.
const MANY: u64 = 1 << 16;

impl Filter {
    /// Returns the least of an item's counters: the most times that the item was added, or 15 if those may be more.
    pub(crate) fn count(&self, probe: Probe) -> u8 {
        counters::least(self.bitmap(), self.positions_of(probe))
    }

    /// Counts an item. Returns whether one of its counters was 0.
    pub(crate) fn count_up(&mut self, probe: Probe) -> bool {
        self.count_up_at(self.positions_of(probe))
    }

    /// Counts an item whose positions are known. Returns whether one of its counters was 0.
    #[inline]
    pub(crate) fn count_up_at(&mut self, positions: impl Iterator<Item = u64>) -> bool {
        let more = counters::raise(self.bitmap_mut(), positions);
        let new = more > 0;
        self.items += u64::from(new);
        self.settle(|in_use| in_use.saturating_add(more));
        new
    }

    /// Removes one count of an item that a filter of counters claims. Returns whether it did: an item stays if all of its
    /// counters are saturated, because its count is unknown.
    pub(crate) fn count_down(&mut self, probe: Probe) -> bool {
        if self.count(probe) == counters::SATURATED {
            return false;
        }
        let positions = self.positions_of(probe);
        let fewer = counters::lower(self.bitmap_mut(), positions);
        let gone = self.count(probe) == 0;
        self.items = self.items.saturating_sub(u64::from(gone));
        self.settle(|in_use| in_use.saturating_sub(fewer));
        if let Contents::Counters { is_surely_full, .. } = &mut self.contents {
            *is_surely_full = false;
        }
        if self.is_unused() {
            self.items = 0;
        }
        true
    }

    /// Lowers the number of items of a full filter of counters to the most that its counters allow. Returns whether the
    /// filter has room then.
    ///
    /// The number of items drifts up while items come and go, because a false positive on removal stays counted. But each
    /// item counts once for each hash function, so the sum of the counters bounds the number of items. The bound is exact
    /// unless items were added more than once or counters are saturated. It takes a pass over the counters, at most once
    /// after each removal.
    pub(crate) fn make_room(&mut self) -> bool {
        let Contents::Counters {
            hashes,
            in_use,
            is_surely_full,
        } = self.contents
        else {
            return false;
        };
        // A saturated number of counters in use is unknown.
        if is_surely_full || in_use == u32::MAX {
            return false;
        }
        let most = counters::sum(self.bitmap()).div_ceil(hashes.into());
        if most < self.items {
            self.items = most;
            self.settle(|in_use| in_use);
        }
        if let Contents::Counters { is_surely_full, .. } = &mut self.contents {
            *is_surely_full = self.items >= self.capacity;
        }
        !self.is_full()
    }

    /// Returns whether this is a filter of counters that are all 0, so that it claims nothing.
    pub(crate) const fn is_unused(&self) -> bool {
        matches!(self.contents, Contents::Counters { in_use: 0, .. })
    }

    /// Records a change of the number of counters in use, and clamps the number of items to what is plausible for
    /// that. Otherwise the number of items would drift while items come and go: a false positive on insert is not
    /// counted, and one on removal stays counted. An estimate never lifts the number above the capacity, where a filter
    /// takes no more.
    ///
    /// The number of items changes by one each time, and an estimate of many items is off by more than a few. So the number
    /// is compared with it only at every [`CHECKED`]th item, unless the filter is small or full.
    #[inline]
    fn settle(&mut self, change: impl Fn(u32) -> u32) {
        let positions = to_double(self.positions());
        if let Contents::Counters { hashes, in_use, .. } = &mut self.contents {
            // A saturated number of counters in use is unknown.
            if *in_use == u32::MAX {
                return;
            }
            *in_use = change(*in_use);
            if !self.items.is_multiple_of(CHECKED) && (MANY..self.capacity).contains(&self.items) {
                return;
            }
            let fill = (f64::from(*in_use) / positions).min(1.0);
            let hashes = u32::from(*hashes);
            if !is_plausible(self.items, positions, hashes, fill) {
                self.clamp_items(positions, hashes, fill);
            } else if cfg!(debug_assertions) {
                let before = self.items;
                self.clamp_items(positions, hashes, fill);
                assert_eq!(self.items, before, "plausible at {fill} of {positions}");
            }
        }
    }

    #[cold]
    fn clamp_items(&mut self, positions: f64, hashes: u32, fill: f64) {
        let (items, deviation) = rate::items_of_fill(positions, hashes, fill);
        let least = to_whole((items - DRIFT * deviation).floor());
        let most = to_whole((items + DRIFT * deviation).ceil()).saturating_add(1);
        self.items = self.items.clamp(least.min(self.capacity).min(most), most);
    }
}

/// Returns whether a number of items is certainly within the bounds that [`rate::items_of_fill`] sets for a share of
/// counters in use. Comparing squares saves a square root, a logarithm and a division, with
/// `u·t ≤ u·(x + x²/2) + x³/3` in the deviation, which makes it too small by at most a twentieth where up to
/// half of the counters are in use.
#[inline]
fn is_plausible(items: u64, positions: f64, hashes: u32, fill: f64) -> bool {
    let (per_position, power) = rate::items_per_position(fill, hashes);
    let hashes = f64::from(hashes);
    let off = (to_double(items) - positions * per_position) * hashes;
    let spread = fill * (1.0 - power);
    // Rounding errors are far below the thousandth that is taken off the bound.
    let most = 0.999 * DRIFT * DRIFT;
    off * off * (1.0 - fill) < most * positions * spread * spread * (0.5 + fill / 6.0)
}
