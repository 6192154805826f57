//! Chance: the outcome of an item's contest for another item's cell.

use super::decay::Decay;

/// An item that is added, at a cell that another item owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The fingerprint of the item.
    pub fingerprint: u32,
    /// The index of the cell: row · width + column.
    pub cell: u32,
    /// The fingerprint of the owner.
    pub owner: u32,
    /// The owner's count, at least 1. A cell with a count of 0 is taken without a draw.
    pub count: u32,
    /// The increment, at least 1: the number of draws.
    pub draws: u32,
    /// The number of earlier collisions in this sketch that hung on chance, modulo 2⁶³.
    pub number: u64,
}

/// The outcome of a contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contest {
    /// The owner keeps the cell, with this count.
    Kept(u32),
    /// The item gets the cell, with this count: the draws from the one that took the owner's last unit.
    Taken(u32),
}

/// A source of chance.
pub trait Chance {
    /// Returns the outcome of a collision. The decay is below 1, and its power of the count above 0.
    fn contest(&mut self, collision: &Collision, decay: &Decay) -> Contest;
}

/// Makes the draws of a contest one by one, each with a random number below 2³¹. This defines the distribution that
/// every source of chance has.
pub fn one_by_one(
    collision: &Collision,
    decay: &Decay,
    mut random: impl FnMut() -> u32,
) -> Contest {
    let mut count = collision.count;
    if count == 0 {
        return Contest::Taken(collision.draws);
    }
    for left in (1..=collision.draws).rev() {
        if decay.loses(count, random()) {
            count -= 1;
            if count == 0 {
                return Contest::Taken(left);
            }
        }
    }
    Contest::Kept(count)
}
