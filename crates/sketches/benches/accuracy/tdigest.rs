//! Errors of the quantiles of t-digests in rank, and the digests' sizes.

use valkeybloom_sketches::tdigest::{Compression, TDigest};

use crate::streams::Random;
use crate::{grouped, percent};

const VALUES: usize = 1_000_000;
const PARTS: usize = 10;
const SEEDS: u64 = 10;
const COMPRESSIONS: [u64; 4] = [50, 100, 500, 1000];
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// A stream of values.
#[derive(Clone, Copy)]
enum Stream {
    Uniform,
    /// e²ᶻ, where z is normal.
    Lognormal,
    Ascending,
    Descending,
}

/// The streams, and whether a digest of each tenth is made and all are merged.
const CASES: [(&str, Stream, bool); 6] = [
    ("uniform", Stream::Uniform, false),
    ("lognormal, σ = 2", Stream::Lognormal, false),
    ("ascending", Stream::Ascending, false),
    ("descending", Stream::Descending, false),
    ("lognormal, 10 merged", Stream::Lognormal, true),
    ("ascending, 10 merged", Stream::Ascending, true),
];

impl Stream {
    fn values(self, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let value = || match self {
            Self::Lognormal => libm::exp(2.0 * random.normal()),
            _ => random.fraction(),
        };
        let mut values: Vec<f64> = std::iter::repeat_with(value).take(VALUES).collect();
        match self {
            Self::Ascending => values.sort_unstable_by(f64::total_cmp),
            Self::Descending => values.sort_unstable_by(|one, other| other.total_cmp(one)),
            Self::Uniform | Self::Lognormal => {}
        }
        values
    }
}

/// The largest sizes of digests that have taken a stream.
#[derive(Clone, Copy, Default)]
struct Sizes {
    nodes: usize,
    /// Bytes before a query, and after it.
    bytes: [u64; 2],
}

/// Prints the tables of docs/t-digest.md.
pub fn print() {
    let compressions = COMPRESSIONS.map(|number| Compression::new(number).expect("in range"));
    let mut errors = [[[0.0_f64; QUANTILES.len()]; CASES.len()]; COMPRESSIONS.len()];
    let mut sizes = [Sizes::default(); COMPRESSIONS.len()];
    for (case, (_, stream, merged)) in CASES.into_iter().enumerate() {
        for seed in 0..SEEDS {
            let values = stream.values(seed);
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            for (index, compression) in compressions.into_iter().enumerate() {
                let digest = if merged {
                    merge(compression, &values)
                } else {
                    digest(compression, &values)
                };
                measure(
                    &digest,
                    &sorted,
                    &mut errors[index][case],
                    &mut sizes[index],
                );
            }
        }
    }
    print_errors(&errors);
    println!();
    print_sizes(compressions, sizes);
}

fn print_errors(errors: &[[[f64; QUANTILES.len()]; CASES.len()]]) {
    let names = QUANTILES.map(|quantile| quantile.to_string());
    println!("| compression | stream | {} |", names.join(" | "));
    println!("|---|---|{}", "---|".repeat(QUANTILES.len()));
    for (compression, errors) in COMPRESSIONS.into_iter().zip(errors) {
        let compression = grouped(compression);
        for ((name, ..), errors) in CASES.iter().zip(errors) {
            let errors = errors.map(percent);
            println!("| {compression} | {name} | {} |", errors.join(" | "));
        }
    }
}

fn print_sizes(compressions: [Compression; 4], sizes: [Sizes; 4]) {
    println!("| compression | nodes | bytes | after a query |");
    println!("|---|---|---|---|");
    for (compression, Sizes { nodes, bytes }) in compressions.into_iter().zip(sizes) {
        let number = grouped(compression.get());
        let [before, after] = bytes.map(grouped);
        println!("| {number} | {nodes} | {before} | {after} |");
    }
}

fn digest(compression: Compression, values: &[f64]) -> TDigest {
    let mut digest = TDigest::new(compression);
    for value in values {
        digest.add_each(&[*value]).expect("finite");
    }
    digest
}

fn merge(compression: Compression, values: &[f64]) -> TDigest {
    let parts = values.chunks(VALUES / PARTS);
    let parts: Vec<TDigest> = parts.map(|part| digest(compression, part)).collect();
    TDigest::merged(compression, &parts).expect("few values")
}

/// Raises the errors and sizes to those of a digest.
fn measure(digest: &TDigest, sorted: &[f64], errors: &mut [f64], sizes: &mut Sizes) {
    let before = digest.memory_bytes();
    let compressed = digest.compressed().expect("memory");
    for (error, quantile) in errors.iter_mut().zip(QUANTILES) {
        *error = error.max(rank_error(sorted, quantile, compressed.quantile(quantile)));
    }
    let copy = digest.compressed_copy().expect("memory");
    sizes.nodes = sizes.nodes.max(copy.merged_nodes());
    sizes.bytes[0] = sizes.bytes[0].max(before);
    sizes.bytes[1] = sizes.bytes[1].max(digest.memory_bytes());
}

/// Returns the distance between a quantile and the ranks of its estimate, as a share of all values.
#[allow(clippy::cast_precision_loss, reason = "a million values")]
fn rank_error(sorted: &[f64], quantile: f64, estimate: f64) -> f64 {
    let number = sorted.len() as f64;
    let below = sorted.partition_point(|value| *value < estimate) as f64 / number;
    let up_to = sorted.partition_point(|value| *value <= estimate) as f64 / number;
    f64::max(below - quantile, quantile - up_to).max(0.0)
}
