//! Requests for new objects.

use crate::bloom::filter::Cells;
use crate::bloom::law::{Law, Limits, Links, NextFilter, Params, Refusal, State};
use crate::bloom::stack::Stack;

use super::plan::Plan;
use super::shape::Shape;

/// A request for a new object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum New {
    /// An object of this module's own types. A plain one grows by valkey-bloom's law if its tightening ratio is marked
    /// as valkey-bloom's.
    Own(Shape),
    /// An object with the bits that `RedisBloom` 8.8 would give it.
    RedisBloom {
        /// The parameters. The tightening ratio is ignored: each filter has half the rate of the one before.
        params: Params,
        /// The growth factor to record, even if the object does not grow.
        factor: u32,
    },
}

impl New {
    /// The largest capacity of a filter of `RedisBloom`.
    pub const REDISBLOOM_CAPACITY: u64 = 1 << 30;
    /// The largest expansion of a filter of `RedisBloom`.
    pub const REDISBLOOM_EXPANSION: u32 = 32_768;

    /// Returns the kind and the parameters.
    pub const fn shape(&self) -> Shape {
        match self {
            Self::Own(shape) => *shape,
            Self::RedisBloom { params, .. } => Shape::plain(*params),
        }
    }

    /// Returns the capacity that the object, or with a window each period, can grow to, and what stops it there.
    /// Nothing does if the capacity is [`MAX_CAPACITY`](crate::MAX_CAPACITY).
    pub fn reach(&self, limits: Limits) -> (u64, Option<Refusal>) {
        match self {
            Self::Own(shape) => shape.reach(limits),
            Self::RedisBloom { params, factor } => {
                let begun = begin(params, *factor, limits);
                begun.map_or_else(
                    |refusal| (0, Some(refusal)),
                    |(law, _, at)| law.reach(at, limits.into()),
                )
            }
        }
    }

    /// Returns the filters and the memory of the object with `items` items, with a window in each period.
    ///
    /// # Errors
    /// Those of [`Shape::plan`].
    pub fn plan(&self, items: u64, limits: Limits) -> Result<Plan, Refusal> {
        match self {
            Self::Own(shape) => shape.plan(items, limits),
            Self::RedisBloom { params, factor } => {
                let (law, first, mut at) = begin(params, *factor, limits)?;
                let first_bytes = at.bytes;
                let mut filters = vec![(first.capacity, first.geometry)];
                let mut sizes = vec![first_bytes];
                law.grow(&mut at, items, limits, |step, at| {
                    filters.push((step.capacity, step.geometry));
                    sizes.push(at.bytes);
                    Ok(())
                })?;
                Ok(Plan {
                    filters,
                    sizes,
                    first_bytes,
                    full_bytes: at.bytes,
                    periods: 1,
                })
            }
        }
    }
}

/// Returns `RedisBloom`'s law with the first filter, that filter, and the state of its stack.
fn begin(
    params: &Params,
    factor: u32,
    limits: Limits,
) -> Result<(Law, NextFilter, State), Refusal> {
    let (mut links, first) = Links::begin(params, factor)?;
    let empty = Stack::BASE_BYTES + Links::BASE_BYTES;
    let mut at = State::before_first(empty, params.capacity, Cells::BareBits);
    first.admit(&at, limits.into())?;
    at.push(&first);
    links.all.extend(first.link);
    Ok((Law::RedisBloom(Box::new(links)), first, at))
}
