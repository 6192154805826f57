//! Bloom objects: the values of keys.

mod additions;
mod body;
mod check;
mod counters;
mod estimate;
mod feeding;
mod ids;
mod lanes;
mod make;
mod merge;
mod outline;
mod period;
mod plan;
mod shape;
mod timeline;
mod union;
mod view;
mod window;

pub use body::Object;
pub use check::FilterFields;
pub use ids::{Ids, Interval};
pub use merge::MergeError;
pub use outline::{FilterOutline, Outline, PeriodOutline};
pub use period::Period;
pub use plan::{Plan, shard_capacity};
pub use shape::{Kind, New, Shape};
pub use view::View;
pub use window::{Time, Window};
