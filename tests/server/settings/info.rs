//! INFO bloom, which is INFO bf where the settings say so.

use crate::harness::{Client, Server, bulk};
use crate::support::protocols::with_fixed_seed;
use crate::support::sums::Sums;

use super::set;

#[test]
fn info_bloom_is_info_bf() {
    let server = with_fixed_seed();
    for mut client in [server.client(), server.client3()] {
        client.ok("FLUSHALL SYNC");
        client.ok("BF.RESERVE k 0.01 100");
        client.run("BF.MADD k a b c");
        let own = client.cmd("INFO bf");
        let bytes = Sums::read(&mut client).bytes();
        let sections = format!(
            "# bf_bloom_core_metrics\r\n\
             bf_bloom_total_memory_bytes:{bytes}\r\n\
             bf_bloom_num_objects:1\r\n\
             bf_bloom_num_filters_across_objects:1\r\n\
             bf_bloom_num_items_across_objects:3\r\n\
             bf_bloom_capacity_across_objects:100\r\n\
             bf_bloom_num_redisbloom_objects:0\r\n\
             bf_bloom_num_half_loaded_objects:0\r\n\
             \r\n\
             # bf_bloom_feed_metrics\r\n\
             bf_bloom_feed_memory_bytes:0\r\n\
             bf_bloom_num_feeds:0\r\n\
             bf_bloom_num_feed_readers:0\r\n\
             \r\n\
             # bf_bloom_defrag_metrics\r\n\
             bf_bloom_defrag_hits:0\r\n\
             bf_bloom_defrag_misses:0\r\n\
             \r\n\
             # bf_cuckoo_core_metrics\r\n\
             bf_cuckoo_total_memory_bytes:0\r\n\
             bf_cuckoo_num_objects:0\r\n\
             bf_cuckoo_num_filters_across_objects:0\r\n\
             bf_cuckoo_num_items_across_objects:0\r\n\
             bf_cuckoo_num_slots_across_objects:0\r\n\
             \r\n\
             # bf_cms_core_metrics\r\n\
             bf_cms_total_memory_bytes:0\r\n\
             bf_cms_num_objects:0\r\n\
             bf_cms_num_counters_across_objects:0\r\n\
             \r\n\
             # bf_topk_core_metrics\r\n\
             bf_topk_total_memory_bytes:0\r\n\
             bf_topk_num_objects:0\r\n\
             bf_topk_num_items_across_objects:0\r\n\
             bf_topk_num_cells_across_objects:0\r\n\
             \r\n\
             # bf_tdigest_core_metrics\r\n\
             bf_tdigest_total_memory_bytes:0\r\n\
             bf_tdigest_num_objects:0\r\n\
             bf_tdigest_num_nodes_across_objects:0\r\n\
             bf_tdigest_num_observations_across_objects:0\r\n"
        );
        assert_eq!(own.text(), sections);
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
        let script: [&[u8]; 3] = [b"EVAL", b"return redis.call('info', 'Bloom')", b"0"];
        assert_eq!(client.call(&script).text(), sections);
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
