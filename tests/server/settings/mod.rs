//! The settings: what they may be, where they can be given, and what each of them does.

mod effects;
mod given;
mod info;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::harness::{Client, Reply, Server, error};

struct Setting {
    name: &'static str,
    /// The specification's name.
    alias: Option<&'static str>,
    default: &'static str,
    /// Another value, as it is set and as it is read.
    other: (&'static str, &'static str),
    /// The outermost values that are accepted.
    edges: Vec<String>,
    /// Values that are refused, and why.
    wrong: Vec<(String, String)>,
}

/// Settings that cannot change once the module is loaded.
const FIXED: [&str; 2] = ["bf.cms-encoding", "bf.families"];

/// Name, alias, default, another value as it is set and as it is read, and the values that are accepted.
const TABLE: &str = "
bf.bloom-capacity bf.bloom_capacity 100000 500 500 integer:1:9223372036854775807
bf.bloom-expansion bf.bloom_expansion_rate 2 3 3 integer:0:4294967295
bf.bloom-fp-rate bf.bloom_fp_rate 0.01 0.0625 0.0625 rate
bf.bloom-tightening-ratio - 0.5 0.75 0.75 rate
bf.bloom-filter-max-memory-usage bf.bloom_filter_max_memory_usage 67108864 32mb 33554432 memory:1
bf.bloom-memory-usage-limit - 0 1gb 1073741824 memory:0
bf.bloom-large-item-threshold bf.bloom_large_item_threshold 4096 64k 64000 memory:0
bf.bloom-saturate-nonscaling - no yes yes switch
bf.bloom-new-filters - own RedisBloom redisbloom own:valkey-bloom:redisbloom
bf.bloom-info-fields - five ALL all five:valkey-bloom:all
bf.bloom-use-random-seed - yes no no switch
bf.bloom-feed-bytes - 1048576 64kb 65536 memory:1024
bf.bloom-receipt-ttl - 604800 60 60 integer:0:4294967295
bf.bloom-defrag-enabled - yes no no switch
bf.bloom-info-alias - yes no no switch
bf.cf-initial-size - 1024 300 300 integer:4:1073741824
bf.cf-bucket-size - 2 4 4 integer:1:255
bf.cf-max-iterations - 20 7 7 integer:1:65535
bf.cf-expansion-factor - 1 5 5 integer:0:32768
bf.cf-max-expansions - 32 9 9 integer:1:65536
bf.cms-overflow - refuse Saturate saturate refuse:saturate
";

static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.is_empty());
    lines.map(setting).collect()
});

fn setting(line: &'static str) -> Setting {
    let words: Vec<&'static str> = line.split(' ').collect();
    let [name, alias, default, set, read, values] = words[..] else {
        panic!("not six words: {line}");
    };
    let (edges, wrong) = values_of(name, values);
    Setting {
        name,
        alias: (alias != "-").then_some(alias),
        default,
        other: (set, read),
        edges,
        wrong,
    }
}

fn between(low: &str, high: &str) -> String {
    format!("argument must be between {low} and {high} inclusive")
}

fn beside(number: &str, by: i128) -> String {
    (number.parse::<i128>().expect("a number") + by).to_string()
}

/// Returns the outermost values of a kind, and wrong ones with what is said of each.
fn values_of(name: &str, kind: &str) -> (Vec<String>, Vec<(String, String)>) {
    const NO_INTEGER: &str = "argument couldn't be parsed into an integer";
    const NO_MEMORY: &str = "argument must be a memory value";
    const NO_RATE: &str = "argument must be a number between 0 and 1 exclusive";
    const NO_SWITCH: &str = "argument must be 'yes' or 'no'";
    let most = i64::MAX.to_string();
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let all = |words: &[&str], why: &str| -> Vec<(String, String)> {
        words
            .iter()
            .map(|&word| (word.to_owned(), why.to_owned()))
            .collect()
    };
    match kind.split(':').collect::<Vec<_>>()[..] {
        ["rate"] => (
            owned(&["1e-300", "0.9999999999999999", "0.25"]),
            all(&["0", "1", "-0.1", "1.5", "nan", "inf", "x", ""], NO_RATE),
        ),
        ["switch"] => (owned(&["yes", "no"]), all(&["maybe", "1", ""], NO_SWITCH)),
        ["memory", low] => {
            let mut wrong = all(&["-1", "x", "1tbb"], NO_MEMORY);
            let outside = if low == "0" {
                beside(&most, 1)
            } else {
                beside(low, -1)
            };
            wrong.push((outside, between(low, &most)));
            (owned(&[low, &most]), wrong)
        }
        ["integer", low, high] => {
            let mut wrong = all(&["x", "1.5", "", "9223372036854775808"], NO_INTEGER);
            if high != most {
                wrong.push((
                    beside(high, 1),
                    between(if low == "4" { "2" } else { low }, high),
                ));
            }
            // Below 4, there is no room for two buckets of the default size.
            if low == "4" {
                wrong.push(("1".to_owned(), between("2", high)));
                wrong.push((
                    "3".to_owned(),
                    "cf-initial-size must be at least twice cf-bucket-size".to_owned(),
                ));
            } else {
                wrong.push((beside(low, -1), between(low, high)));
            }
            (owned(&[low, high]), wrong)
        }
        [ref first @ .., last] => {
            let others: Vec<String> = first.iter().map(|word| format!("'{word}'")).collect();
            let why = format!("argument must be {} or '{last}'", others.join(", "));
            let words: Vec<&str> = kind.split(':').collect();
            (owned(&words), all(&["mine", ""], &why))
        }
        [] => panic!("no values of {name}"),
    }
}

/// Returns the value of a setting, or `None` if the server does not have it.
fn get(client: &mut Client, name: &str) -> Option<String> {
    let reported = client.cmd(&format!("CONFIG GET {name}"));
    let pair = reported.as_array();
    assert!(pair.len() <= 2, "{reported:?}");
    pair.get(1).map(Reply::text)
}

fn set(client: &mut Client, name: &str, value: &str) {
    client.ok(format!("CONFIG SET {name} {value}"));
}

/// Checks that all settings have these values, under each of their names.
#[track_caller]
fn assert_told(client: &mut Client, value: impl Fn(&Setting) -> &str) {
    for setting in SETTINGS.iter() {
        let value = value(setting);
        for name in [Some(setting.name), setting.alias].into_iter().flatten() {
            assert_eq!(get(client, name).as_deref(), Some(value), "{name}");
        }
    }
}

fn default(setting: &Setting) -> &str {
    setting.default
}

fn other(setting: &Setting) -> &str {
    setting.other.1
}

fn refusal(name: &str, why: &str) -> Reply {
    error(&format!(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
    ))
}

#[test]
fn settings_have_their_defaults_and_ranges() {
    let (_server, mut client) = Server::with_client();
    assert_told(&mut client, default);
    for setting in SETTINGS.iter() {
        for name in [Some(setting.name), setting.alias].into_iter().flatten() {
            for (value, why) in &setting.wrong {
                client.expect(format!("CONFIG SET {name} {value}"), refusal(name, why));
            }
            assert_told(&mut client, default);
            for value in setting
                .edges
                .iter()
                .map(String::as_str)
                .chain([setting.default])
            {
                set(&mut client, name, value);
                for name in [Some(setting.name), setting.alias].into_iter().flatten() {
                    assert_eq!(get(&mut client, name).as_deref(), Some(value), "{name}");
                }
            }
            set(&mut client, &name.to_uppercase(), setting.other.0);
            let reported = get(&mut client, &name.to_uppercase());
            assert_eq!(reported.as_deref(), Some(setting.other.1));
            set(&mut client, name, setting.default);
        }
    }
    assert_told(&mut client, default);

    // Several settings are all set, or not at all.
    let range = "argument must be between 0 and 4294967295 inclusive";
    client.expect(
        "CONFIG SET bf.bloom-capacity 5 bf.bloom-fp-rate 0.5 bf.bloom-expansion -1",
        refusal("bf.bloom-expansion", range),
    );
    assert_told(&mut client, default);
    client.ok("CONFIG SET bf.bloom-capacity 5 bf.bloom_fp_rate 0.5");
    assert_eq!(get(&mut client, "bf.bloom_capacity").as_deref(), Some("5"));
    assert_eq!(get(&mut client, "bf.bloom-fp-rate").as_deref(), Some("0.5"));
}

#[test]
fn only_the_names_with_hyphens_are_listed() {
    let (_server, mut client) = Server::with_client();
    let names = |client: &mut Client, pattern: &str| -> BTreeSet<String> {
        let reported = client.cmd(&format!("CONFIG GET {pattern}"));
        let pairs = reported.as_array().chunks(2);
        let names = pairs.map(|pair| pair[0].text());
        let own = names.filter(|name| name.starts_with("bf.") && !FIXED.contains(&&**name));
        own.collect()
    };
    let expected: BTreeSet<String> = SETTINGS.iter().map(|s| s.name.to_owned()).collect();
    assert_eq!(names(&mut client, "bf.*"), expected);
    assert_eq!(names(&mut client, "*"), expected);
    for pattern in ["bf.bloom_*", "*bloom_capacity", "bf.bloom_capacit?"] {
        assert_eq!(names(&mut client, pattern), BTreeSet::new(), "{pattern}");
    }
    assert_eq!(get(&mut client, "bf.bloom-nosuch"), None);
}
