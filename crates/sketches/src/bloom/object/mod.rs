//! Bloom objects: the values of keys.

mod body;
mod check;
mod claims;
mod clock;
mod estimate;
mod figures;
mod make;
mod merge;
mod outline;
mod part;
mod plan;
mod shape;
mod table_union;
mod tables;
mod union;
mod window;

pub use body::Object;
pub use check::FilterFields;
pub use clock::Clock;
pub use merge::MergeError;
pub use outline::{FilterOutline, Outline};
pub use part::Part;
pub use plan::{PartSize, Plan, PlannedPart, shard_capacity};
pub use shape::{Kind, New, Shape};
pub use tables::Tables;
pub use window::{Time, Window};
