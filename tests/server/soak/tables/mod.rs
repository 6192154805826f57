//! Objects of tables of fingerprints live through writes, merges and clocks, and can be stored at any time. An
//! oracle knows each entry (`valkeybloom_testing::tables`), so every answer is known, false positives included. After each
//! step, copies, a replica and whatever loads the object hold the same.

mod checks;
mod items;
mod life;
mod nodes;
mod writes;

use std::thread;

use super::{Budget, random};
use crate::support::Rng;
use life::Life;
use nodes::Nodes;

/// The objects of a life, and its steps.
#[derive(Clone, Copy)]
struct Profile {
    kinds: &'static [&'static str],
    capacities: &'static [u64],
    rates: &'static [&'static str],
    growths: &'static [&'static str],
    periods: &'static [u64],
    /// The most items of a write.
    most: usize,
    /// One in `crowds` writes adds items that share the first bits of their hashes; 0 for none.
    crowds: usize,
    /// One in `linked` lives gets its writes from a primary, with times of the test's choice; 0 for none.
    linked: usize,
    /// The first steps of a life, which have the names of [`Life::step`].
    first: &'static str,
    /// The steps after them, with weights.
    steps: &'static str,
    /// The number of these steps.
    length: usize,
}

/// A little of everything.
const ANY: Profile = Profile {
    kinds: &["COUNTING", "WINDOW", "SCALETO"],
    capacities: &[1, 10, 100, 1000, 20_000, 1_000_000],
    rates: &["0.5", "0.05", "0.01", "0.001", "1e-9", "1e-15"],
    growths: &["", "", "EXPANSION 1", "EXPANSION 4"],
    periods: &[1, 2, 3, 24, 100, 1000],
    most: 3000,
    crowds: 6,
    linked: 3,
    first: "Create Add",
    steps: "3 Create, 20 Add, 2 Forge, 2 Repeat, 8 Remove, 2 Drain, 6 Merge, 8 Clock, 3 CopyKey, 3 Reload, \
        1 Join, 1 Save, 1 Log",
    length: 40,
};

/// Objects lose most of their items between those that share the first bits of their hashes, and before these come.
const CROWDS: Profile = Profile {
    kinds: &["COUNTING", "COUNTING", "WINDOW", "SCALETO"],
    capacities: &[200_000, 1_000_000],
    rates: &["0.01", "0.001"],
    growths: &[""],
    most: 20_000,
    crowds: 8,
    linked: 4,
    first: "Create Fill Drain Join Crowd",
    steps: "4 Fill, 6 Crowd, 3 Forge, 3 Drain, 2 Add, 1 Remove, 2 Join, 1 Save, 1 Clock, 1 Log",
    length: 10,
    ..ANY
};

/// Objects were larger before a replica joins, and then get items of one prefix, and those of others.
const FOLLOWED: Profile = Profile {
    kinds: &["COUNTING"],
    linked: 0,
    most: 40_000,
    first: "Create Fill Create Fill Create Fill Drain Drain Join",
    steps: "2 Crowd, 3 Merge, 2 Drain, 2 Join, 1 Fill",
    length: 6,
    ..CROWDS
};

/// Objects of many shards lose all but such items.
const LARGE_CROWDS: Profile = Profile {
    most: 180_000,
    first: "Create Fill Crowd Drain Drain",
    steps: "3 Crowd, 3 Drain, 1 Remove, 1 Join, 1 Save",
    length: 3,
    ..FOLLOWED
};

/// Filters of any sizes are merged.
const MERGES: Profile = Profile {
    capacities: &[100, 10_000, 1_000_000, 1_000_000],
    rates: &["0.1", "0.01", "0.001"],
    most: 100_000,
    crowds: 0,
    first: "Create Add Create Add",
    steps: "2 Create, 5 Add, 6 Merge, 2 Drain, 1 Join, 1 Reload, 1 Clock",
    length: 14,
    ..ANY
};

/// Windows that were reserved too small get bursts of items as time goes by.
const BURSTS: Profile = Profile {
    kinds: &["WINDOW"],
    capacities: &[1, 1, 1, 10],
    rates: &["1e-15", "1e-15", "1e-14", "1e-9"],
    periods: &[1, 1, 2, 24],
    crowds: 0,
    linked: 1,
    steps: "12 Fill, 12 Clock, 3 Add, 1 Save",
    length: 80,
    ..ANY
};

/// Items are added thousands of times.
const COUNTS: Profile = Profile {
    kinds: &["COUNTING"],
    capacities: &[100, 1000, 3000],
    rates: &["0.5", "0.2", "0.05"],
    growths: &["", "NONSCALING"],
    most: 2000,
    crowds: 2,
    linked: 0,
    steps: "2 Add, 8 Repeat, 1 Remove, 1 Merge, 1 Reload",
    length: 14,
    ..ANY
};

/// Filters that do not grow take more than they are for.
const SATURATED: Profile = Profile {
    kinds: &["COUNTING", "WINDOW"],
    capacities: &[10, 100, 1000],
    growths: &["NONSCALING"],
    most: 20_000,
    linked: 0,
    first: "Create Saturate Fill",
    steps: "8 Add, 1 Saturate, 2 Remove, 1 Merge, 1 Join",
    length: 14,
    ..ANY
};

/// Runs `lives` lives of a profile in `./build.sh test`, and as many as there is time for in `./build.sh soak`. Each has a seed
/// of its own, which repeats it alone.
fn live(test: &str, profile: &Profile, lives: u64) {
    let mut seeds = random(test);
    let mut nodes = Nodes::start();
    let (mut seed, mut steps, mut refused) = (seeds.state(), 0, 0);
    for number in Budget::rounds(lives) {
        if number > 0 {
            seed = seeds.next();
        }
        let told = Told(test, seed);
        let mut life = Life::new(&mut nodes, *profile, Rng::new(seed));
        life.live();
        steps += life.taken;
        refused += life.refused;
        drop(told);
    }
    eprintln!("{test}: {steps} steps, {refused} writes refused");
}

/// Prints the seed of a life that fails.
struct Told<'t>(&'t str, u64);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}: SOAK_SEED={} repeats this life", self.0, self.1);
        }
    }
}

macro_rules! lives {
    ($($test:ident: $lives:literal of $profile:ident;)*) => {$(
        #[test]
        fn $test() {
            live(stringify!($test), &$profile, $lives);
        }
    )*};
}

lives! {
    tables_live_through_anything: 6 of ANY;
    crowds_can_be_stored: 6 of CROWDS;
    large_crowds_can_be_stored: 4 of LARGE_CROWDS;
    late_replicas_follow: 6 of FOLLOWED;
    merges_are_accepted_everywhere: 6 of MERGES;
    bursts_can_be_stored: 5 of BURSTS;
    counts_have_no_limit: 6 of COUNTS;
    saturated_filters_take_anything: 6 of SATURATED;
}
