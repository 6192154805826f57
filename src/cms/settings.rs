//! The settings of count-min sketches.

use valkeybloom_sketches::cms::Overflow;

use crate::ffi::Ctx;
use crate::settings::Setting;

static OVERFLOW: Setting = Setting::choice(c"cms-overflow", &["refuse", "saturate"]);
/// The encoding version in which sketches are saved.
pub static ENCODING: Setting = Setting::integer(c"cms-encoding", 0, &(0..=1)).fixed();

/// The settings of this family.
pub static ALL: &[&Setting] = &[&OVERFLOW, &ENCODING];

/// Returns the rule for increments that counters of four bytes can't take. Counters saturate if the command was already
/// executed elsewhere: a server that refuses sends only increments that fit, a server that saturates sends all.
#[inline]
pub fn overflow(ctx: Ctx) -> Overflow {
    if OVERFLOW.number() == 0 && !ctx.must_obey() {
        Overflow::Refuse
    } else {
        Overflow::Saturate
    }
}
