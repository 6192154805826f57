//! Why a command for t-digests failed.

use std::fmt;

/// The error of a command for t-digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TDigestError {
    /// The key does not exist.
    NotFound,
    /// TDIGEST.CREATE was called for a digest that exists.
    Exists,
    /// The word is not an option, or repeats one.
    BadOption,
    /// The compression is not a number.
    BadCompression,
    /// The compression is 0 or negative.
    CompressionRange,
    /// There is no memory for a digest, or the memory limits don't allow it.
    NotAllocated,
    /// There is no memory for the digest that TDIGEST.MERGE makes, or the memory limits don't allow it.
    DestinationNotAllocated,
    /// The number of sources is not a number.
    BadSources,
    /// The number of sources is 0 or negative.
    SourcesRange,
    /// The value to add is not a number.
    BadAddition,
    /// The value to add is infinite.
    InfiniteAddition,
    /// There would be more than 2⁶³ − 1 observations.
    Overflow,
    /// The quantile is not a number.
    BadQuantile,
    /// The quantile is not from 0 to 1.
    QuantileRange,
    /// The value of TDIGEST.CDF is not a number.
    BadCdf,
    /// The value of TDIGEST.RANK or TDIGEST.REVRANK is not a number.
    BadValue,
    /// The rank is not a number.
    BadRank,
    /// The rank is negative.
    RankRange,
    /// The lower cut of `TDIGEST.TRIMMED_MEAN` is not a number.
    BadLowCut,
    /// The upper cut of `TDIGEST.TRIMMED_MEAN` is not a number.
    BadHighCut,
    /// A cut is not from 0 to 1.
    CutRange,
    /// The lower cut is not below the upper cut.
    CutOrder,
}

impl fmt::Display for TDigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "ERR T-Digest: key does not exist",
            Self::Exists => "ERR T-Digest: key already exists",
            Self::BadOption => "ERR T-Digest: wrong keyword",
            Self::BadCompression => "ERR T-Digest: error parsing compression parameter",
            Self::CompressionRange => {
                "ERR T-Digest: compression parameter needs to be a positive integer"
            }
            Self::NotAllocated => "ERR T-Digest: allocation failed",
            Self::DestinationNotAllocated => {
                "ERR T-Digest: allocation of destination digest failed"
            }
            Self::BadSources => "ERR T-Digest: error parsing numkeys",
            Self::SourcesRange => "ERR T-Digest: numkeys needs to be a positive integer",
            Self::BadAddition => "ERR T-Digest: error parsing val parameter",
            Self::InfiniteAddition => "ERR T-Digest: val parameter needs to be a finite number",
            Self::Overflow => "ERR T-Digest: overflow detected",
            Self::BadQuantile => "ERR T-Digest: error parsing quantile",
            Self::QuantileRange => "ERR T-Digest: quantile should be in [0,1]",
            Self::BadCdf => "ERR T-Digest: error parsing cdf",
            Self::BadValue => "ERR T-Digest: error parsing value",
            Self::BadRank => "ERR T-Digest: error parsing rank",
            Self::RankRange => "ERR T-Digest: rank needs to be non negative",
            Self::BadLowCut => "ERR T-Digest: error parsing low_cut_percentile",
            Self::BadHighCut => "ERR T-Digest: error parsing high_cut_percentile",
            Self::CutRange => {
                "ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]"
            }
            Self::CutOrder => {
                "ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile"
            }
        })
    }
}
