//! Runs what fuzzing found through its target again, as a test.

use std::fs;
use std::path::Path;

use crate::support::Rng;

/// The inputs that are kept for a target.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let fuzz = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"));
    let mut inputs = Vec::new();
    for folder in ["corpus", "regressions"] {
        let folder = fuzz.join(folder).join(target);
        let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert!(!paths.is_empty(), "nothing in {}", folder.display());
        paths.sort();
        inputs.extend(paths.iter().map(|path| fs::read(path).unwrap()));
    }
    inputs
}

/// A kept input with some changes, of the kinds that have hurt parsers.
fn near(inputs: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    const NUMBERS: [u64; 10] = [
        0,
        1,
        45,
        255,
        1 << 31,
        1 << 32,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    let mut bytes = rng.pick(inputs).clone();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        let end = bytes.len().min(at + 1 + rng.below(60));
        match rng.below(6) {
            0 if at < end => bytes[at] ^= 1 << rng.below(8),
            1 => overwrite(&mut bytes, at, *rng.pick(&NUMBERS)),
            // A sum, a count or a capacity that is wrong by one, or stands for another.
            2 => {
                let other = bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
                let number = other.map_or(0, u64::from_le_bytes);
                let place = rng.below(bytes.len() + 1);
                overwrite(
                    &mut bytes,
                    place,
                    number.wrapping_add(rng.next() % 3).wrapping_sub(1),
                );
            }
            3 => drop(bytes.drain(at..end)),
            4 => {
                let run = bytes[at..end].to_vec();
                bytes.splice(at..at, run);
            }
            _ => {
                let other = rng.pick(inputs);
                bytes.truncate(at);
                bytes.extend(&other[at.min(other.len())..]);
            }
        }
    }
    bytes
}

/// Writes a number over what is at a place, up to the end.
fn overwrite(bytes: &mut [u8], at: usize, number: u64) {
    let end = bytes.len().min(at + 8);
    bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
}

/// Runs a target on each input that is kept for it, and on `mutations` that are near to one.
pub fn replay(target: &str, mutations: u32, run: impl Fn(&[u8])) {
    let inputs = kept(target);
    for input in &inputs {
        run(input);
    }
    let mut rng = Rng::new(mutations.into());
    for _ in 0..mutations {
        run(&near(&inputs, &mut rng));
    }
}
