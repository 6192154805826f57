//! Recordings of RedisBloom 8.8: its bytes are read, and written again. What its commands make and answer is tested on
//! servers.

use serde_json::Value;
use valkeybloom_sketches::{Seed, Sketch};

use crate::support::unhex;

const CUCKOO: &str = include_str!("../../../../tests/data/redisbloom-8.8-cuckoo/objects.json");
const COUNTS: &str = include_str!("../../../../tests/data/redisbloom-8.8-cmstopk/objects.json");
const DIGESTS: &str = include_str!("../../../../tests/data/redisbloom-8.8-tdigest/objects.json");

/// RDB version and checksum at the end of a DUMP.
const FOOTER_BYTES: usize = 10;

/// Returns the recorded values of a type, by their keys.
pub fn values(type_name: &str) -> Vec<(String, Value)> {
    let values = [CUCKOO, COUNTS, DIGESTS].into_iter().flat_map(|text| {
        let all: Value = serde_json::from_str(text).unwrap();
        let lists = match all["cases"].as_object() {
            Some(cases) => cases.values().map(|case| case["keys"].clone()).collect(),
            None => vec![all.get("objects").unwrap_or(&all).clone()],
        };
        let maps = lists
            .into_iter()
            .filter_map(|list| list.as_object().cloned());
        maps.flatten()
    });
    values
        .filter(|(_, value)| value["type"] == type_name)
        .collect()
}

/// Returns a recorded DUMP, compressed or plain.
pub fn dump(value: &Value, name: &str) -> Vec<u8> {
    unhex(value[name].as_str().unwrap())
}

#[test]
fn its_dumps_are_read_and_written() {
    for (type_name, count) in [("MBbloomCF", 19), ("CMSk-TYPE", 18), ("TDIS-TYPE", 68)] {
        let values = values(type_name);
        assert_eq!(values.len(), count);
        for (key, value) in values {
            // A t-digest has no strings, so its dump is plain.
            let name = ["dump_plain", "dump"].map(|name| value.get(name).map(|_| name));
            let plain = dump(&value, name[0].or(name[1]).unwrap());
            // The server writes four digits as a number. Means that overflowed, and a node of weight 0 in place of an
            // observation that RedisBloom lost, are mended.
            let has_lost = value["info_after_dump"][7] == 1;
            let differs = has_lost || ["cms-digits", "overflow"].contains(&&*key);
            for dump in [&dump(&value, "dump"), &plain] {
                let written = Sketch::from_dump(dump, Seed::FIXED).unwrap().to_dump();
                let [written, plain] =
                    [&written, &plain].map(|dump| &dump[..dump.len() - FOOTER_BYTES]);
                assert_eq!(written == plain, !differs, "{key}");
            }
        }
    }
}
