//! What is worth doing about a key, and why.
//!
//! Each piece of advice is true of the values that the server reported. Nothing is advised on values that are unknown.
//! docs/tool.md lists what is advised.

mod bloom;
mod cuckoo;
mod piece;
mod sketches;

use crate::held::limits::{Settings, Sizes};
use crate::held::row::{Details, Row};
use crate::report::counted;
use crate::upload::is_temporary;

pub use self::piece::Advice;
use self::piece::near_memory;

/// What advice depends on beside the key.
#[derive(Clone, Copy)]
pub struct Advisor {
    pub settings: Settings,
    /// The days without use that make a key idle.
    pub idle_days: u64,
}

impl Advisor {
    /// Returns the advice on a key. A temporary key has none: a run may be filling it, and otherwise it expires.
    pub fn advise(self, row: &Row) -> Vec<Advice> {
        if is_temporary(&row.key) {
            return vec![];
        }
        let settings = self.settings;
        let is_partial = row.details == Details::PartlyLoaded;
        let whole = || near_memory(row.bytes.map(Sizes::whole), settings);
        let of_type = match &row.details {
            Details::PartlyLoaded => {
                let why = "a copy of it was not finished, so it answers nothing";
                vec![Advice::unlink(row, why, "finish the copy, or delete it")]
            }
            Details::Bloom(filter) => bloom::advise(row, filter, settings),
            Details::Cuckoo(filter) => cuckoo::advise(row, filter, settings),
            Details::CountMin {
                width,
                depth,
                cell_size: cell_size @ (None | Some(4)),
            } => {
                // A field that is absent leaves open whether the server has other sizes.
                let has_sizes = cell_size.is_some() || settings.has_cell_sizes();
                let shape = (*width, *depth);
                Vec::from_iter(sketches::saturated(row, shape, has_sizes, settings))
            }
            Details::TopK(list) => {
                let fill = sketches::narrow(row, list, settings);
                fill.into_iter().chain(whole()).collect()
            }
            // No command that adds to these has a limit on memory.
            Details::TDigest(_) | Details::Unknown | Details::CountMin { .. } => vec![],
        };
        let days = row.idle_seconds.map(|seconds| seconds / 86_400);
        let days = days.filter(|days| *days >= self.idle_days && !is_partial);
        let unused = days.map(|days| {
            let why = format!("it was not used for {}", counted(days, "day"));
            Advice::unlink(row, &why, "delete it if nobody needs it")
        });
        of_type.into_iter().chain(unused).collect()
    }
}

#[cfg(test)]
mod tests;
