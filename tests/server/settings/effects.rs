//! Effects of the settings on new objects, their memory and their seed.

use valkeybloom_sketches::Seed;

use crate::harness::{Client, Reply, Server, array, bulk, error, int, nil, ok};
use crate::support::pieces::pieces;
use crate::support::protocols::{field, truths};

use super::set;

#[test]
fn new_objects_are_made_as_the_settings_say() {
    let (_server, mut client) = Server::with_client();
    set(&mut client, "bf.bloom-capacity", "500");
    set(&mut client, "bf.bloom-expansion", "3");
    set(&mut client, "bf.bloom-fp-rate", "0.0625");
    set(&mut client, "bf.bloom-tightening-ratio", "0.75");
    let of_settings = (500, int(3), "0.0625", "0.75");
    for (create, (capacity, expansion, rate, ratio)) in [
        ("BF.ADD a item", of_settings.clone()),
        ("BF.MADD m item", of_settings.clone()),
        ("BF.INSERT i", of_settings),
        // Options of a command override the settings.
        ("BF.RESERVE r 0.5 7", (7, int(3), "0.5", "0.75")),
        (
            "BF.INSERT o CAPACITY 8 ERROR 0.25 EXPANSION 4 TIGHTENING 0.125",
            (8, int(4), "0.25", "0.125"),
        ),
    ] {
        client.run(create);
        let key = create.split(' ').nth(1).expect("a key");
        let info = client.cmd(&format!("BF.INFO {key} ALL"));
        let reported = [1, 9, 11, 13].map(|index| info.as_array()[index].clone());
        let expected = [int(capacity), expansion, bulk(rate), bulk(ratio)];
        assert_eq!(reported, expected, "{create}");
    }
    // An expansion of 0 makes objects that do not grow, unless the command says otherwise. It does not reach what
    // exists.
    set(&mut client, "bf.bloom-expansion", "0");
    client.expect("BF.ADD fixed item", int(1));
    client.expect("BF.INFO fixed EXPANSION", array([nil()]));
    assert_eq!(client.cmd("BF.INFO fixed ALL").as_array().len(), 16);
    client.ok("BF.RESERVE scaling 0.01 10 EXPANSION 2");
    assert_eq!(field(&mut client, "scaling", "EXPANSION"), 2);
    assert_eq!(field(&mut client, "a", "EXPANSION"), 3);
}

#[test]
fn memory_limits_bind() {
    let (_server, mut client) = Server::with_client();
    let refused = error("ERR operation exceeds bloom object memory limit");
    let mut bind = |setting: &str, least: i64, command: &str, reply: &Reply| {
        set(&mut client, setting, &(least - 1).to_string());
        client.expect(command, &refused);
        set(&mut client, setting, &least.to_string());
        client.expect(command, reply);
        field(&mut client, "a", "SIZE")
    };
    // 122 bytes of bitmap and 45 before them.
    let filter = "bf.bloom-filter-max-memory-usage";
    let size = bind(filter, 167, "BF.RESERVE a 0.01 100 NONSCALING", &ok());
    // All that the object takes.
    let all = "bf.bloom-memory-usage-limit";
    bind(all, size, "BF.RESERVE b 0.01 100 NONSCALING", &ok());
    bind(all, size, "BF.MERGE c a", &ok());
    set(&mut client, all, "0");
    set(&mut client, filter, "64mb");
    client.ok("BF.RESERVE d 0.01 1000000");
}

/// Returns the seed in the header of an object.
fn seed(client: &mut Client, key: &str) -> Vec<u8> {
    pieces(client, key)[0].1[51..83].to_vec()
}

#[test]
fn the_seed_is_random_or_the_fixed_one() {
    let (_server, mut client) = Server::with_client();
    let fixed = Seed::FIXED.as_bytes();
    client.expect("BF.ADD a item", int(1));
    client.expect("BF.ADD b item", int(1));
    let (a, b) = (seed(&mut client, "a"), seed(&mut client, "b"));
    assert!(a != b && a != fixed && b != fixed);

    set(&mut client, "bf.bloom-use-random-seed", "no");
    client.expect("BF.ADD c item", int(1));
    assert_eq!(seed(&mut client, "c"), fixed);
    // A seed that is given goes before.
    let given = [7; 32];
    let insert: [&[u8]; 6] = [b"BF.INSERT", b"d", b"SEED", &given, b"ITEMS", b"item"];
    assert_eq!(client.call(&insert), truths(false, &[true]));
    assert_eq!(seed(&mut client, "d"), given);
}
