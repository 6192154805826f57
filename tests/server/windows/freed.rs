//! The memory of objects while periods expire.

use crate::harness::{Client, Server, ok, wait_in_sync, wait_until};
use crate::support::periods::clock;
use crate::support::replayed::command;
use crate::support::sums;
use crate::support::usage::memory;

use super::info;

#[test]
fn memory_stays_level_however_many_periods_expire() {
    let server = Server::start();
    let mut client = server.client();
    let mut begun = Vec::new();
    for period_ms in 1..=5 {
        let create = format!("BF.RESERVE k{period_ms} 0.01 1000 WINDOW {period_ms} PERIODS 3");
        assert_eq!(client.cmd(&create), ok());
        begun.push(info(&mut client, &format!("k{period_ms}"), "SIZE"));
    }
    let start = clock(&mut client);
    let mut used = Vec::new();
    let mut item = 0;
    wait_until("hundreds of periods have passed", || {
        for key in 1..=5 {
            let mut adds = Vec::new();
            for _ in 0..20 {
                item += 1;
                adds.push(command(&format!("BF.ADD k{key} {item}")));
            }
            for added in client.call_all(&adds) {
                assert!(!added.is_error(), "{added:?}");
            }
            // Three periods and one ahead, each of one filter as at the start.
            let size = info(&mut client, &format!("k{key}"), "SIZE");
            assert!(size <= 4 * begun[key - 1], "{size}");
        }
        used.push(memory(&server, "used_memory"));
        clock(&mut client) - start > 1500
    });
    let (first, rest) = used.split_at(used.len() / 4);
    let most = |used: &[i64]| *used.iter().max().expect("some");
    assert!(most(rest) < most(first) + 256 * 1024, "{used:?}");
    sums::is_balanced(&mut client);
}

/// Filters of periods that went on without a gap share memory, and yet what passes in a gap is freed.
#[test]
fn memory_follows_after_a_gap() {
    let (periods, period_ms) = (16, 100);
    let server = Server::start();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    let create = format!("BF.RESERVE k 0.01 4000 WINDOW {period_ms} PERIODS {periods}");
    assert_eq!(client.cmd(&create), ok());
    let filter = info(&mut client, "k", "SIZE");
    let mut items = 0..;
    let mut add = |client: &mut Client, count| {
        let items: Vec<String> = items
            .by_ref()
            .take(count)
            .map(|n: u32| n.to_string())
            .collect();
        client.cmd(&format!("BF.MADD k {}", items.join(" ")))
    };
    let start = clock(&mut client);
    wait_until("a window has passed", || {
        add(&mut client, 20);
        clock(&mut client) - start > (periods + 2) * period_ms
    });
    let last = clock(&mut client);
    wait_until("most of it has passed again", || {
        clock(&mut client) - last > (periods - 4) * period_ms
    });
    for _ in 0..40 {
        add(&mut client, 100);
    }
    // At the time of one more write.
    assert_eq!(client.cmd("MULTI"), ok());
    add(&mut client, 1);
    client.cmd("BF.INFO k LIVEPERIODS");
    let replies = client.cmd("EXEC");
    let live = replies.as_array()[1].as_array()[0].as_int();
    wait_in_sync(&server, &replica);
    for server in [&server, &replica] {
        let mut client = server.client();
        // Less than half of the periods kept are expired, and one may expire just now.
        let size = info(&mut client, "k", "SIZE");
        assert!(size <= (2 * live + 2) * filter, "{size} bytes of {live}");
        sums::is_balanced(&mut client);
    }
}
