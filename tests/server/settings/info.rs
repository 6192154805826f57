//! INFO bloom, which is INFO bf where the settings say so.

use crate::harness::{Client, Server, bulk};
use crate::support::protocols::with_fixed_seed;

use super::set;

#[test]
fn info_bloom_is_info_bf() {
    let server = with_fixed_seed();
    for mut client in [server.client(), server.client3()] {
        client.ok("FLUSHALL SYNC");
        client.ok("BF.RESERVE k 0.01 100");
        client.run("BF.MADD k a b c");
        let own = client.cmd("INFO bf");
        let sections = own.text();
        assert!(sections.contains("bf_bloom_num_items_across_objects:3\r\n"));
        for command in [
            "INFO bloom",
            "info BLOOM",
            "Info Bloom",
            "INFO bf bloom",
            "INFO bloom bloom",
        ] {
            client.expect(command, &own);
        }
        for command in [
            "INFO modules",
            "INFO everything",
            "INFO server bloom",
            "INFO bloom server",
            "INFO all bloom",
            "INFO default bloom keyspace",
            "INFO everything bloom",
        ] {
            let reported = client.cmd(command).text();
            assert!(reported.contains(&sections), "{command}: {reported}");
            let others = reported.contains("# Server\r\n");
            assert_eq!(others, command != "INFO modules", "{command}");
        }
        for command in ["INFO blooms", "INFO bloo", "INFO bloom_"] {
            assert_eq!(client.cmd(command).text(), "", "{command}");
        }

        client.ok("MULTI");
        client.cmd("INFO bloom");
        client.cmd("INFO server bloom");
        let reported = client.cmd("EXEC");
        assert_eq!(reported.as_array()[0], own);
        assert!(reported.as_array()[1].text().contains(&sections));
        let script = client.call_with("EVAL", &["return redis.call('info', 'Bloom')", "0"]);
        assert_eq!(script.text(), sections);
    }
}

#[test]
fn info_bloom_is_empty_if_the_settings_say_so() {
    let server = Server::with(&[("bf.bloom-info-alias", "no")]);
    let mut client = server.client();
    let script: [&[u8]; 3] = [b"EVAL", b"return redis.call('INFO', 'bloom')", b"0"];
    // The server says how many filters a module has.
    let filters = |client: &mut Client| {
        let reported = client.cmd("INFO modules").text();
        let own = reported
            .lines()
            .find(|line| line.starts_with("module:name=bf,"))
            .unwrap();
        let count = own.split("filters=").nth(1).unwrap().split(',').next();
        count.unwrap().to_owned()
    };
    for on in [false, true, false, true, true, false] {
        set(
            &mut client,
            "bf.bloom-info-alias",
            if on { "yes" } else { "no" },
        );
        let own = client.cmd("INFO bf");
        assert!(own.text().contains("# bf_bloom_core_metrics\r\n"));
        let expected = if on { own } else { bulk("") };
        client.expect("INFO bloom", &expected);
        client.expect("INFO BLOOM", &expected);
        assert_eq!(client.call(&script), expected);
        assert_eq!(filters(&mut client), u8::from(on).to_string());
    }
    // Nothing but INFO reads the word.
    set(&mut client, "bf.bloom-info-alias", "yes");
    client.ok("SET bloom bloom");
    client.expect("GET bloom", bulk("bloom"));
    client.expect("ECHO bloom", bulk("bloom"));
}
