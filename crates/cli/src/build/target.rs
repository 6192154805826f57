//! What is built, with the options of its family.

use std::num::NonZeroU32;

use clap::Args;
use valkeybloom_client::shard_capacity;
use valkeybloom_planner::TopK;
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Growth, Kind, Params, Shape, Tightening};
use valkeybloom_sketches::{cuckoo, topk};

use crate::failure::{Failure, Result};
use crate::family::Family;
use crate::options::{self, FilterOptions, KindOptions};

const DEFAULT_PROBABILITY: Fraction = Fraction::new(0.01).unwrap();
const DEFAULT_COMPRESSION: u64 = 100;

/// The options for a new filter or sketch.
#[derive(Args)]
pub struct NewOptions {
    /// What to build
    #[arg(long = "as", value_name = "FAMILY", default_value = "bloom")]
    family: Family,
    /// The error rate; of a count-min sketch, the error of an estimate as a share of all counts
    #[arg(long, value_name = "P", value_parser = options::rate)]
    rate: Option<Fraction>,
    /// Number of items, like 100M or 2.5k; without it, the items are counted first
    #[arg(long, value_name = "N", value_parser = options::items)]
    pub items: Option<u64>,
    #[command(flatten)]
    filter: FilterOptions,
    #[command(flatten)]
    kind: KindOptions,
    /// Probability that a count-min sketch's estimate has a larger error [default: 0.01]
    #[arg(long, value_name = "P", value_parser = options::rate)]
    probability: Option<Fraction>,
    /// Length of a Top-K's list
    #[arg(long, value_name = "N", value_parser = options::items)]
    k: Option<u64>,
    /// Compression of a t-digest: more is more accurate [default: 100]
    #[arg(long, value_name = "N", value_parser = options::items)]
    compression: Option<u64>,
}

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
    pub fn from_options(new: &NewOptions, has_shards: bool) -> Result<Self> {
        let family = new.family;
        let kind = new.kind.kind()?;
        new.refuse_inapplicable(kind, has_shards)?;
        let required = |option: &str| {
            let object = family.object();
            Failure::usage(format!("a {object} needs {option}"))
        };
        let rate = || new.rate.ok_or_else(|| required("--rate"));
        Ok(match family {
            Family::Bloom => Self::Bloom {
                error_rate: rate()?,
                growth: new.filter.growth(),
                kind,
            },
            Family::Cuckoo => Self::Cuckoo,
            Family::Cms => Self::Cms {
                error: rate()?,
                probability: new.probability.unwrap_or(DEFAULT_PROBABILITY),
            },
            Family::Topk => Self::Topk {
                k: new.k.ok_or_else(|| required("--k"))?,
            },
            Family::Tdigest => Self::Tdigest {
                compression: new.compression.unwrap_or(DEFAULT_COMPRESSION),
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

    /// Returns how a value of a family differs from the target, and how to build one like it; `None` if it may be replaced. A
    /// filter that lacks chunks has no kind, and may be replaced by any.
    pub fn difference(&self, family: Family, kind: Option<Kind>) -> Option<String> {
        if family != self.family() {
            let (object, word) = (family.object(), family.word());
            return Some(format!("is a {object}: build it with --as {word}"));
        }
        let text = match (kind?, self.kind()) {
            (Kind::Windowed(_), Kind::Windowed(_)) => return None,
            (Kind::Windowed(_), _) => "has a window: build it with --window and --periods",
            (Kind::Counting, wanted) if wanted != Kind::Counting => {
                "counts its items: build it with --counting"
            }
            _ => return None,
        };
        Some(text.to_owned())
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
            Self::Cuckoo => {
                let bucket_size = cuckoo::Params::REDISBLOOM.bucket_size.into();
                let capacity = cuckoo::Params::capacity_for(items, bucket_size);
                Plan::command(&[&"CF.RESERVE", &capacity])
            }
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

impl NewOptions {
    fn refuse_inapplicable(&self, kind: Kind, has_shards: bool) -> Result<()> {
        use Family::{Bloom, Cms, Cuckoo, Tdigest, Topk};
        let Self {
            family,
            rate,
            items,
            filter,
            kind: _,
            probability,
            k,
            compression,
        } = self;
        let options = [
            ("--rate", rate.is_some(), &[Bloom, Cms][..]),
            ("--items", items.is_some(), &[Bloom, Cuckoo]),
            ("--nonscaling", filter.nonscaling, &[Bloom]),
            ("--expansion", filter.expansion.is_some(), &[Bloom]),
            ("--counting", kind == Kind::Counting, &[Bloom]),
            ("--scale-to", kind == Kind::ScaledTo, &[Bloom]),
            ("--window", matches!(kind, Kind::Windowed(_)), &[Bloom]),
            ("--probability", probability.is_some(), &[Cms]),
            ("--k", k.is_some(), &[Topk]),
            ("--compression", compression.is_some(), &[Tdigest]),
            ("--shards", has_shards, &[Bloom]),
        ];
        for (option, is_given, families) in options {
            if is_given && !families.contains(family) {
                return Err(inapplicable(option, *family));
            }
        }
        Ok(())
    }
}

/// Reports an option that a family has no use for.
pub fn inapplicable(option: &str, family: Family) -> Failure {
    let object = family.object();
    Failure::usage(format!("{option} does not apply to a {object}"))
}
