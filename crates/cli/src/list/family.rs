//! The families of types, and the commands that describe their values.

use valkeybloom_protocol::names::BF_INFO;
use valkeybloom_sketches::{cms, cuckoo, topk};

use crate::server::is_filter;

/// A family of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Bloom,
    Cuckoo,
    CountMin,
    TopK,
    TDigest,
}

impl Family {
    /// Returns the family of one of the module's types, as TYPE returns it.
    pub fn of(kind: &str) -> Self {
        let is = |name: &std::ffi::CStr| name.to_bytes() == kind.as_bytes();
        if is_filter(kind) {
            Self::Bloom
        } else if is(cuckoo::wire::TYPE_NAME) {
            Self::Cuckoo
        } else if is(cms::wire::TYPE_NAME) {
            Self::CountMin
        } else if is(topk::wire::TYPE_NAME) {
            Self::TopK
        } else {
            Self::TDigest
        }
    }

    pub const fn info_command(self) -> &'static str {
        match self {
            Self::Bloom => BF_INFO,
            Self::Cuckoo => "CF.INFO",
            Self::CountMin => "CMS.INFO",
            Self::TopK => "TOPK.INFO",
            Self::TDigest => "TDIGEST.INFO",
        }
    }
}
