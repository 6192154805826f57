//! The texts of advice. Each says why something is worth doing, and what.

use std::fmt::Display;

use valkeybloom_protocol::names::CUCKOO_FILTERS;

/// Makes a function of each text. Its arguments take the places of their names in braces.
macro_rules! texts {
    ($($name:ident($($word:ident),*) = $text:literal;)*) => {
        $(pub fn $name($($word: impl Display),*) -> String {
            format!($text)
        })*
    };
}

texts! {
    partly_loaded() = "a copy of it was not finished, so it answers nothing; finish the copy, or delete it";
    unused(days) = "it was not used for {days} days; delete it if nobody needs it";
    near_capacity(share, capacity) = "{share} of the {capacity} items that it takes are in it, and it does not grow; fill a \
        larger one, and rename it";
    near_reach(share, reach, settings_end) = "{share} of the {reach} items at which {settings_end} its growth are in it; \
        raise the limit";
    near_slots(share) = "{share} of its slots are taken, and it does not grow";
    near_filters(filters, most) = "it has {filters} of the {most} that {CUCKOO_FILTERS} allows, and refuses items once all are full";
    larger(why) = "{why}; fill a larger one, and rename it";
    largest(why) = "{why}; none can be larger, so spread the items over several keys";
    limited(reason, settings, refuse) = "{reason}; first raise {settings}, which {refuse} it";
    near_memory(share, setting, limit) = "its bytes are {share} of {setting}, {limit}; raise the limit";
    above_rate(now, rate) = "its error rate is {now} now, and {rate} was requested; fill a larger one, and rename it";
    stacked(capacity, new_bytes, bytes, new_filters, filters) = "it has stacked filters to grow; one reserved for {capacity} \
        items (half as many again as now) takes {new_bytes} bytes instead of {bytes}, and a lookup searches {new_filters} \
        instead of {filters}; fill it, and rename it";
    saturated(largest, count, new) = "its counters end at {largest}, and it has counted {count}, so frequent items may stand \
        still; count in {new}";
    narrow(cells, listed, wide_cells, wide_bytes, bytes) = "its {cells} a row are too few to find the {listed} most frequent \
        items; {wide_cells} a row take {wide_bytes} bytes instead of {bytes} with a full list";
}
