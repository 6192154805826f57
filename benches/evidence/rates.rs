//! Measures error rates: large filters in a server, low rates, all kinds of keys and filters.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of keys are far below 2^53"
)]

use std::thread;

use valkeybloom_sketches::bloom::{Object, Part};
use valkeybloom_testing::harness::Server;
use valkeybloom_testing::support::{Rng, counting, object, object_of, params, scaled_to, windowed};

use crate::keys::{Key, add, decimal, found, sample, sent};
use crate::{Table, grouped, scaled};

/// The rate of filters that differ in other things.
const RATE: f64 = 0.01;

/// The number of periods of a window.
const PERIODS: u64 = 25;

/// The length of a period in milliseconds.
const PERIOD_MS: u64 = 1000;

/// Kinds of keys, the number of each that is added, and how they are written.
const KINDS: [(&str, u64, Key); 5] = [
    ("of keys of 1 to 3 bytes", 8_000_000, short),
    ("of sequential decimal numbers", 10_000_000, decimal),
    ("of addresses that differ in one digit", 10_000_000, address),
    (
        "of 64-bit numbers, little endian",
        10_000_000,
        |number, key| key.extend(number.to_le_bytes()),
    ),
    (
        "of 64-bit numbers, big endian",
        10_000_000,
        |number, key| key.extend(number.to_be_bytes()),
    ),
];

/// Writes a key of one to three bytes. The numbers below 16,843,008 give all such keys, in a scattered order.
fn short(number: u64, key: &mut Vec<u8>) {
    const ALL: u64 = 256 + 256 * 256 + 256 * 256 * 256;
    assert!(
        number < ALL,
        "keys repeat if EVIDENCE_KEYS is above 526 million"
    );
    // The factor is coprime to the number of all keys.
    let (number, length) = match number * 10_000_019 % ALL {
        number @ 0..256 => (number, 1),
        number @ 256..65_792 => (number - 256, 2),
        number => (number - 65_792, 3),
    };
    key.extend(&number.to_le_bytes()[..length]);
}

fn address(number: u64, key: &mut Vec<u8>) {
    key.extend(format!("https://example.org/articles/{number:08}").bytes());
}

/// A filter after lookups of its keys and of others.
struct Measured {
    name: String,
    keys: u64,
    /// The keys that were looked up, and how many of them were missing.
    checked: u64,
    missing: u64,
    lookups: u64,
    /// The lookups of other keys that found one.
    found: u64,
    /// The requested rate.
    rate: f64,
    /// The rate by the textbook's formula.
    formula: f64,
}

impl Measured {
    /// Returns the fewest and the most finds that are no evidence against the rates: the most by the requested rate, the
    /// fewest by the formula's, because no filter is better than its bits.
    fn allowed_finds(&self) -> (u64, u64) {
        let mean = self.formula * self.lookups as f64;
        let least = (mean - 5.0 * mean.sqrt()).max(0.0).ceil();
        (least as u64, most_by_chance(self.rate, self.lookups))
    }

    fn holds(&self) -> bool {
        let (least, most) = self.allowed_finds();
        self.missing == 0 && (least..=most).contains(&self.found)
    }

    fn measured_rate(&self) -> String {
        format!("{:.3e}", self.found as f64 / self.lookups as f64)
    }

    fn row(&self) -> [String; 9] {
        let (least, most) = self.allowed_finds();
        [
            self.name.clone(),
            grouped(self.keys),
            format!("{} of {}", grouped(self.missing), grouped(self.checked)),
            format!("{:e}", self.rate),
            format!("{:.3e}", self.formula),
            self.measured_rate(),
            grouped(self.lookups),
            grouped(self.found),
            format!("{} to {}", grouped(least), grouped(most)),
        ]
    }
}

/// Returns the most finds that are no evidence against a rate.
///
/// Finds are binomial, nearly a Poisson distribution. The bound leaves out a tail of one in three million, as five
/// standard deviations of a normal distribution do: some ninety bounds are checked in a run, so one run in 40,000 fails by
/// chance. How many bits of a filter are set is up to chance too, but that varies the rate by less than an eighth of this,
/// with no more lookups than keys or at low rates.
pub(crate) fn most_by_chance(rate: f64, lookups: u64) -> u64 {
    let mean = rate * lookups as f64;
    if mean > 500.0 {
        // The last term is for the skewness (Cornish and Fisher 1938): (5² − 1) / 6.
        return (mean + 5.0 * mean.sqrt() + 4.0) as u64;
    }
    let (mut number, mut term) = (0, (-mean).exp());
    let mut beyond = 1.0 - term;
    while beyond > 2.9e-7 {
        number += 1;
        term *= mean / number as f64;
        beyond -= term;
    }
    number
}

/// The claims about rates, and the rows of their details.
struct Rates<'t> {
    table: &'t mut Table,
    rows: Vec<[String; 9]>,
}

impl Rates<'_> {
    fn claim(&mut self, subject: &str, measured: &[Measured]) {
        let missing: u64 = measured.iter().map(|one| one.missing).sum();
        let rates: Vec<_> = measured.iter().map(Measured::measured_rate).collect();
        self.table.claim(
            &format!(
                "{subject}: no key is missing, and others are found at most at the requested rate, and at least at the formula's"
            ),
            &format!("{missing} missing; {}", rates.join(", ")),
            measured.iter().all(Measured::holds),
        );
        self.rows.extend(measured.iter().map(Measured::row));
    }
}

pub(crate) fn run(table: &mut Table) {
    let rows = Vec::new();
    let mut rates = Rates { table, rows };
    in_servers(&mut rates, scaled(500_000_000));
    let keys = scaled(10_000_000);
    for rate in [1e-9, 1e-12] {
        let measured = of_keys("fixed", keys, rate, scaled(1_000_000_000), decimal);
        rates.claim(&format!("{} keys at {rate:e}", grouped(keys)), &[measured]);
    }
    let kinds = KINDS.map(|(kind, keys, key)| of_keys(kind, scaled(keys), RATE, scaled(keys), key));
    rates.claim("Each kind of keys", &kinds);
    rates.claim("Filters with counts, a window or `SCALETO`", &tables(keys));
    let columns = [
        "filter",
        "keys",
        "missing",
        "requested rate",
        "by the formula",
        "measured",
        "lookups of others",
        "found",
        "allowed",
    ];
    let rows = rates.rows;
    table.details("Rates", columns, &rows);
    table.note(
        "The formula is (1 - exp(-hashes * keys / bits)) ^ hashes; for tables, the share of all fingerprints that are \
         taken. Allowed is what chance explains once in three million runs: the fewest by the formula, the most by the \
         requested rate.",
    );
}

/// Measures large filters, each in a server of its own, at the same time: a server uses one processor.
fn in_servers(rates: &mut Rates, keys: u64) {
    let measured = thread::scope(|scope| {
        let servers = [(RATE, 10_000_000), (1e-6, 100_000_000)];
        let measure = |(rate, lookups)| scope.spawn(move || in_server(keys, rate, scaled(lookups)));
        let threads = servers.map(measure);
        threads.map(|thread| thread.join().expect("the server is measured"))
    });
    for measured in measured {
        let subject = format!("{} keys at {:e} in a server", grouped(keys), measured.rate);
        rates.claim(&subject, &[measured]);
    }
}

/// Measures filters that are tables.
fn tables(keys: u64) -> [Measured; 5] {
    let of = |capacity| params(capacity, RATE, 2);
    let window = windowed(of(keys / PERIODS), PERIOD_MS, PERIODS);
    let shapes = [
        ("with `COUNTING`", counting(of(keys))),
        (
            "with `COUNTING`, grown from a hundredth",
            counting(of(keys / 100)),
        ),
        ("with `WINDOW`", window),
        ("with `SCALETO` of all keys", scaled_to(of(keys))),
        (
            "with `SCALETO` of a hundredth, and grown",
            scaled_to(of(keys / 100)),
        ),
    ];
    let mut rng = Rng::new(3);
    shapes.map(|(kind, shape)| {
        let filter = object_of(&shape, rng.seed());
        in_process(kind, filter, RATE, keys, keys, decimal)
    })
}

/// Measures a filter in a server, whose limit is raised for it.
fn in_server(keys: u64, rate: f64, lookups: u64) -> Measured {
    let server = Server::with(&[("bf.bloom-filter-max-memory-usage", "8gb")]);
    let mut client = server.client();
    client.ok(format!("BF.RESERVE filter {rate} {keys} NONSCALING"));
    let send = |command: &str, numbers| sent(server.port(), command, numbers, decimal);
    send("BF.MADD filter", 0..keys);
    // bytes:600000000 bits:4800000000 hashes:7 …
    let line = client.run("BF.DEBUG filter").as_array()[1].text();
    let field = |name: &str| {
        let mut fields = line.split(' ').filter_map(|field| field.strip_prefix(name));
        fields
            .next()
            .and_then(|number| number.parse().ok())
            .expect("a number")
    };
    let (mut checked, mut present) = (0, 0);
    for numbers in sample(keys, scaled(100_000_000)) {
        checked += numbers.end - numbers.start;
        present += send("BF.MEXISTS filter", numbers);
    }
    Measured {
        name: "in a server".to_owned(),
        keys,
        checked,
        missing: checked - present,
        lookups,
        found: send("BF.MEXISTS filter", keys..keys + lookups),
        rate,
        formula: formula(field("bits:"), field("hashes:"), keys),
    }
}

/// Measures a filter of a fixed size in this process with this kind of keys.
fn of_keys(name: &str, keys: u64, rate: f64, lookups: u64, key: Key) -> Measured {
    let filter = object(&params(keys, rate, 0), Rng::new(2).seed());
    in_process(name, filter, rate, keys, lookups, key)
}

/// Measures a filter in this process. If it has a window, each period gets the same number of keys.
fn in_process(
    name: &str,
    mut filter: Object,
    rate: f64,
    keys: u64,
    lookups: u64,
    key: Key,
) -> Measured {
    let share = keys.div_ceil(PERIODS);
    for period in 0..PERIODS {
        let end = keys.min((period + 1) * share);
        add(&mut filter, period * share..end, key, period * PERIOD_MS);
    }
    let now_ms = (PERIODS - 1) * PERIOD_MS;
    // A table claims a stranger whose fingerprint it holds.
    let claims_not = |share: f64, part: &Part| {
        share * (1.0 - part.table.fingerprints() as f64 / f64::from(part.step.bits).exp2())
    };
    let mut filters = filter.filters();
    let formula = match filters.next() {
        Some((bits, _)) => {
            // Filters of bits come from `of_keys` alone, with a fixed size.
            assert!(filters.next().is_none(), "a filter of a fixed size grew");
            formula(bits.positions() as f64, f64::from(bits.hashes()), keys)
        }
        None => 1.0 - filter.parts().iter().fold(1.0, claims_not),
    };
    Measured {
        name: name.to_owned(),
        keys,
        checked: keys,
        missing: keys - found(&filter, 0..keys, key, now_ms),
        lookups,
        found: found(&filter, keys..keys + lookups, key, now_ms),
        rate,
        formula,
    }
}

/// Returns the rate of a filter by the textbook's formula.
fn formula(bits: f64, hashes: f64, keys: u64) -> f64 {
    (1.0 - (-hashes * keys as f64 / bits).exp()).powf(hashes)
}
