//! What an object gives to its [`Feed`](crate::Feed), and what a copy takes from it.

use crate::bloom::law::{Limits, Refusal};
use crate::bloom::stack::Added;
use crate::hash::Probe;

use super::body::{Body, Object};

impl Object {
    /// Adds items to a plain object as [`add_each`](Self::add_each) does, and passes the probes of new ones to `new`, in
    /// order. Does nothing to other objects.
    pub fn add_each_probed<'i>(
        &mut self,
        items: impl Iterator<Item = &'i [u8]>,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Result<Added, Refusal>),
        mut new: impl FnMut(Probe),
    ) {
        if let Body::Stack(stack) = &mut self.0 {
            stack.add_each(items, &limits, |batch, index, added| {
                if matches!(added, Ok(Added::New)) {
                    new(batch.probe(index));
                }
                outcome(added);
            });
        }
        self.assert_valid();
    }

    /// Adds the items of a [`Feed`](crate::Feed) to a copy of the plain object that they were new to. Each counts, even if
    /// the copy has its bits already, as it may if the copy was made in chunks while items were added. Does nothing to
    /// other objects.
    ///
    /// # Errors
    /// Any [`Refusal`]. The items before it are added.
    pub fn replay_each(
        &mut self,
        probes: impl Iterator<Item = Probe>,
        limits: Limits,
    ) -> Result<(), Refusal> {
        let replayed = match &mut self.0 {
            Body::Stack(stack) => stack.replay_each(probes, limits),
            Body::Tables(_) => Ok(()),
        };
        self.assert_valid();
        replayed
    }
}
