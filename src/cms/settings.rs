//! The settings of count-min sketches.

use valkeybloom_sketches::cms::Overflow;

use crate::settings::Setting;

static OVERFLOW: Setting = Setting::choice(c"cms-overflow", &["refuse", "saturate"]);
/// The encoding version in which sketches are saved.
pub static ENCODING: Setting = Setting::integer(c"cms-encoding", 0, &(0..=1)).fixed();

/// The settings of this family.
pub static ALL: &[&Setting] = &[&OVERFLOW, &ENCODING];

/// Returns what becomes of an increment that counters of four bytes can't take. Commands of a primary or a log get this
/// server's rule, too, because the commands of `RedisBloom` do not name one.
#[inline]
pub fn overflow() -> Overflow {
    match OVERFLOW.number() {
        0 => Overflow::Refuse,
        _ => Overflow::Saturate,
    }
}
