//! What the machine's memory takes alone: no lookup in a large object is quicker.

use divan::Bencher;
use divan::counter::ItemsCount;
use valkeybloom_testing::support::Rng;

/// Returns a random place in a slice of this length.
fn place(random: &mut Rng, length: usize) -> usize {
    let place = (u128::from(random.next()) * length as u128) >> 64;
    usize::try_from(place).expect("less than the length")
}

/// What the memory takes for a batch of 100 hits in a filter for 45 million items: eight bits each, in 62 MB.
#[divan::bench]
fn read_800_bytes_of_62_mb(bencher: Bencher) {
    let bytes = vec![1_u8; 62_000_000];
    let mut random = Rng::new(7);
    bencher.counter(ItemsCount::new(800_u32)).bench_local(|| {
        let read = (0..800).map(|_| u32::from(bytes[place(&mut random, bytes.len())]));
        read.sum::<u32>()
    });
}

/// What the memory takes for a miss in a window of 24 periods of a million items: about eight words of 53 MB. The next
/// eight begin when these are read, as in the next command.
#[divan::bench]
fn read_8_words_of_53_mb(bencher: Bencher) {
    let words = vec![1_usize; 53_000_000 / 8];
    let mut random = Rng::new(7);
    let mut sum = 8;
    bencher.bench_local(|| {
        let skipped = sum - 8;
        let read = (0..8).map(|_| words[place(&mut random, words.len() - skipped) + skipped]);
        sum = read.sum();
    });
}
