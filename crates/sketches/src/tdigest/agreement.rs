//! Whether two digests may hold the same observations in other nodes.

use std::f64::consts::TAU;

use crate::number;

use super::compressed::Compressed;
use super::digest::TDigest;
use super::node::double;

/// How far the sums of observations may be apart, as a share of the sum of magnitudes: compressions round means.
const ROUNDING: f64 = 1e-9;

impl TDigest {
    /// Returns whether two digests may hold the same observations, and differ only because they were compressed at other
    /// moments; `None` if allocation fails.
    ///
    /// Compression, number of observations, minimum and maximum have to be equal, and so has the sum of the
    /// observations apart from rounding, because merging nodes keeps it. The shares of the observations up to a value
    /// may differ by the largest node that the compression allows there, once for each digest.
    pub fn agrees_with(&self, other: &Self) -> Option<bool> {
        let ends = |digest: &Self| [digest.min(), digest.max()].map(f64::to_bits);
        if self.compression() != other.compression()
            || self.observations() != other.observations()
            || ends(self) != ends(other)
        {
            return Some(false);
        }
        let total = double(self.observations()).max(1.0);
        let widest = TAU * number::ln(total) / self.compression().as_double();
        let (one, other) = (self.compressed()?, other.compressed()?);
        Some(have_equal_sums(&one, &other) && have_close_shares(&one, &other, widest))
    }
}

fn have_equal_sums(one: &Compressed<'_>, other: &Compressed<'_>) -> bool {
    // In units of the largest magnitude, so that no sum overflows.
    let unit = one.min.abs().max(one.max.abs()).max(f64::MIN_POSITIVE);
    let sums = |digest: &Compressed<'_>| {
        let nodes = digest.marks.nodes();
        let terms = nodes.map(|node| node.mean / unit * node.double_weight());
        terms.fold((0.0, 0.0), |(sum, magnitude), term| {
            (sum + term, magnitude + term.abs())
        })
    };
    let ((own, magnitude), (others, _)) = (sums(one), sums(other));
    (own - others).abs() <= ROUNDING * magnitude
}

/// Compares shares at every mean. `widest` is the factor of `q·(1−q)` in the share of the largest node at `q`.
fn have_close_shares(one: &Compressed<'_>, other: &Compressed<'_>, widest: f64) -> bool {
    let nodes = one.marks.nodes().chain(other.marks.nodes());
    let mut means = nodes.map(|node| node.mean);
    means.all(|mean| {
        let (own, others) = (one.cdf(mean), other.cdf(mean));
        let middle = f64::midpoint(own, others);
        let most = 2.0 * widest * middle * (1.0 - middle) + 1.0 / double(one.observations);
        (own - others).abs() <= most
    })
}
