//! What is built, with the options of its family.

use std::num::NonZeroU32;

use valkeybloom_client::shard_capacity;
use valkeybloom_planner::TopK;
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Growth, Kind, Params, Shape, Tightening};
use valkeybloom_sketches::topk;

use super::Build;
use crate::failure::{Failure, Result};
use crate::family::Family;

const DEFAULT_PROBABILITY: Fraction = Fraction::new(0.01).unwrap();
const DEFAULT_COMPRESSION: u64 = 100;

/// A new filter or sketch.
pub enum Target {
    Bloom {
        error_rate: Fraction,
        growth: Growth,
        kind: Kind,
    },
    Cuckoo,
    Cms {
        error: Fraction,
        probability: Fraction,
    },
    Topk {
        k: u64,
    },
    Tdigest {
        compression: u64,
    },
}

impl Target {
    /// Reads the options of a command line.
    ///
    /// # Errors
    /// The family needs an option that is missing, or has no use for one that is given.
    pub fn from_options(build: &Build) -> Result<Self> {
        let family = build.family;
        let kind = build.kind.kind()?;
        refuse_inapplicable_options(build, kind)?;
        let required = |option: &str| {
            let object = family.object();
            Failure::usage(format!("a {object} needs {option}"))
        };
        let rate = || build.rate.ok_or_else(|| required("--rate"));
        Ok(match family {
            Family::Bloom => Self::Bloom {
                error_rate: rate()?,
                growth: build.filter.growth(),
                kind,
            },
            Family::Cuckoo => Self::Cuckoo,
            Family::Cms => Self::Cms {
                error: rate()?,
                probability: build.probability.unwrap_or(DEFAULT_PROBABILITY),
            },
            Family::Topk => Self::Topk {
                k: build.k.ok_or_else(|| required("--k"))?,
            },
            Family::Tdigest => Self::Tdigest {
                compression: build.compression.unwrap_or(DEFAULT_COMPRESSION),
            },
        })
    }

    pub const fn family(&self) -> Family {
        match self {
            Self::Bloom { .. } => Family::Bloom,
            Self::Cuckoo => Family::Cuckoo,
            Self::Cms { .. } => Family::Cms,
            Self::Topk { .. } => Family::Topk,
            Self::Tdigest { .. } => Family::Tdigest,
        }
    }

    /// Returns the kind of a Bloom filter. All others are plain.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Bloom { kind, .. } => *kind,
            _ => Kind::Plain,
        }
    }

    /// Returns whether the target is made for a number of items.
    pub const fn has_capacity(&self) -> bool {
        matches!(self, Self::Bloom { .. } | Self::Cuckoo)
    }

    /// Returns how to make the target for a number of items, in this number of shards.
    pub fn plan(&self, items: u64, shards: NonZeroU32) -> Plan {
        let items = items.max(1);
        match *self {
            Self::Bloom {
                error_rate,
                growth,
                kind,
            } => {
                let params = Params {
                    capacity: shard_capacity(items, shards),
                    error_rate,
                    tightening: Tightening::HALF,
                    growth,
                };
                Plan::Local(Shape { params, kind })
            }
            // A cuckoo filter has room for four items at least.
            Self::Cuckoo => Plan::command(&[&"CF.RESERVE", &items.max(4)]),
            Self::Cms { error, probability } => {
                Plan::command(&[&"CMS.INITBYPROB", &error.get(), &probability.get()])
            }
            Self::Topk { k } => Plan::command(&[
                &"TOPK.RESERVE",
                &k,
                &TopK::advised_width(k),
                &topk::Shape::DEFAULT_DEPTH,
                &topk::Shape::DEFAULT_DECAY,
            ]),
            Self::Tdigest { compression } => {
                Plan::command(&[&"TDIGEST.CREATE", &"COMPRESSION", &compression])
            }
        }
    }
}

/// How a target is made.
pub enum Plan {
    /// In this program's memory.
    Local(Shape),
    /// On the server, by a command, whose words here lack the key.
    Command(Vec<String>),
}

impl Plan {
    fn command(words: &[&dyn ToString]) -> Self {
        Self::Command(words.iter().map(|word| word.to_string()).collect())
    }
}

fn refuse_inapplicable_options(build: &Build, kind: Kind) -> Result<()> {
    use Family::{Bloom, Cms, Cuckoo, Tdigest, Topk};
    let options = [
        ("--rate", build.rate.is_some(), &[Bloom, Cms][..]),
        ("--items", build.items.is_some(), &[Bloom, Cuckoo]),
        ("--nonscaling", build.filter.nonscaling, &[Bloom]),
        ("--expansion", build.filter.expansion.is_some(), &[Bloom]),
        ("--counting", kind == Kind::Counting, &[Bloom]),
        ("--scale-to", kind == Kind::ScaledTo, &[Bloom]),
        ("--window", matches!(kind, Kind::Windowed(_)), &[Bloom]),
        ("--probability", build.probability.is_some(), &[Cms]),
        ("--k", build.k.is_some(), &[Topk]),
        ("--compression", build.compression.is_some(), &[Tdigest]),
        ("--shards", build.shards.is_some(), &[Bloom]),
    ];
    for (option, is_given, families) in options {
        if is_given && !families.contains(&build.family) {
            return Err(inapplicable(option, build.family));
        }
    }
    Ok(())
}

/// Reports an option that a family has no use for.
pub fn inapplicable(option: &str, family: Family) -> Failure {
    let object = family.object();
    Failure::usage(format!("{option} does not apply to a {object}"))
}
