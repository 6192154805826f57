//! The pages' other tables say what the server says.

use super::{command_names, field, page};
use crate::harness::{Client, Reply, Server, ok, spaced};
use crate::support::protocols::with_fixed_seed;
use crate::tool::run;

/// Returns the rows of the table after a mark, without code marks.
pub fn table(path: &str, mark: &str) -> Vec<Vec<String>> {
    let text = page(path).text;
    let (_, rest) = text.split_once(mark).expect("the page has this mark");
    let rows = super::table(rest).into_iter();
    let plain = |cell: String| cell.trim_matches('`').to_owned();
    let rows: Vec<Vec<String>> = rows
        .map(|row| row.into_iter().map(plain).collect())
        .collect();
    assert!(!rows.is_empty(), "no table after {mark}");
    rows
}

/// The tests of links follow its links.
#[test]
fn the_index_has_every_command() {
    let index = table(
        "docs/commands.md",
        "<!-- index: held against COMMAND LIST by a test -->",
    );
    let links = index.iter().flat_map(|row| row[1].split(", "));
    let names = links.map(|link| {
        let (name, _) = link[1..].split_once("](").expect("a link");
        name.to_owned()
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, command_names(&mut with_fixed_seed().client(), ""));
}

#[test]
fn the_points_of_evidence_are_described() {
    let described = table(
        "docs/evidence.md",
        "<!-- points: held against benches/evidence/main.rs by a test -->",
    );
    let described: Vec<String> = described.into_iter().map(|row| row[0].clone()).collect();
    let program = page("benches/evidence/main.rs").text;
    let (_, points) = program
        .split_once("const POINTS: &[Point] = &[")
        .expect("a list");
    let (points, _) = points.split_once("];").expect("an end");
    let points: Vec<&str> = points.split('"').skip(1).step_by(2).collect();
    assert_eq!(described, points);
}

#[test]
fn settings_match_the_server() {
    let (_server, mut client) = Server::with_client();
    let rows = table(
        "docs/settings.md",
        "<!-- settings: held against CONFIG GET by a test -->",
    );
    let mut value = |name: &str| {
        let reply = client.cmd(&format!("CONFIG GET {name}"));
        reply.as_array().get(1).map(Reply::text)
    };
    for row in &rows {
        let default = Some(row[2].clone());
        assert_eq!(value(&row[0]), default, "{}", row[0]);
        if !row[1].is_empty() {
            assert_eq!(value(&row[1]), default, "{}", row[1]);
        }
    }
    let listed = ["CONFIG GET bf.bloom-*", "CONFIG GET bf.families"];
    let listed = listed.map(|get| client.cmd(get).as_array().len());
    assert_eq!(
        listed.iter().sum::<usize>(),
        2 * rows.len(),
        "every setting has a row"
    );
}

#[test]
fn sizes_match_the_server() {
    let (server, mut client) = Server::with_client();
    let mut info = |key: &str, name: &str| {
        let reply = client.cmd(&format!("BF.INFO {key} {name}"));
        reply.as_array()[0].as_int()
    };
    let mut connection = server.client();
    for row in table(
        "docs/sizing.md",
        "<!-- sizes: held against BF.INFO by a test -->",
    ) {
        let rate = &row[0];
        let fits: i64 = row[4].replace(',', "").parse().expect("a number of items");
        for command in [
            format!("BF.RESERVE flat{rate} {rate} 1000000 NONSCALING"),
            format!("BF.RESERVE one{rate} {rate} 1000000"),
            format!("BF.RESERVE grown{rate} {rate} 1000"),
            format!("BF.RESERVE most{rate} {rate} {fits} NONSCALING"),
        ] {
            assert_eq!(connection.cmd(&command).text(), "OK", "{command}");
        }
        let over = format!("BF.RESERVE over{rate} {rate} {} NONSCALING", fits + 100);
        assert!(connection.cmd(&over).is_error(), "{over}");

        let mut item = 0;
        while info(&format!("grown{rate}"), "ITEMS") < 1_023_000 {
            let lacking = 1_023_000 - info(&format!("grown{rate}"), "ITEMS");
            let batch = lacking.clamp(1, 5000);
            connection.cmd(&format!(
                "BF.MADD grown{rate} {}",
                spaced(item..item + batch)
            ));
            item += batch;
        }
        #[allow(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let mut per_item = |key: String| {
            let (bytes, capacity) = (info(&key, "SIZE"), info(&key, "CAPACITY"));
            format!("{:.2}", bytes as f64 / capacity as f64)
        };
        assert_eq!(row[1], per_item(format!("flat{rate}")), "{rate} NONSCALING");
        assert_eq!(row[2], per_item(format!("one{rate}")), "{rate} one filter");
        assert_eq!(row[3], per_item(format!("grown{rate}")), "{rate} grown");
        connection.cmd("FLUSHALL");
    }
}

#[test]
fn sizes_at_a_tiny_rate_match_the_program() {
    for row in table(
        "docs/sizing.md",
        "<!-- small: held against the program by a test -->",
    ) {
        let items = row[0].replace(',', "");
        for (named, option) in row[1..]
            .iter()
            .zip([&["--nonscaling"][..], &[], &["--scale-to"]])
        {
            let planned = run(&[&["size", "--json", "bloom", &items, "1e-9"], option].concat());
            let bytes_an_item = planned.json()["bytes_an_item"].as_f64().expect("a number");
            let named: f64 = named.replace(',', "").parse().expect("a number");
            assert!(
                (8.0 * bytes_an_item - named).abs() < 0.6,
                "{items} {option:?}"
            );
        }
    }
}

#[test]
fn bytes_per_item_match_the_server() {
    let (_server, mut client) = Server::with_client();
    for row in table(
        "README.md",
        "<!-- which: held against BF.INFO by a test -->",
    ) {
        assert_eq!(client.cmd(&row[1]).text(), "OK", "{}", row[1]);
        let number = |client: &mut Client, name| {
            let info = client.cmd("BF.INFO key ALL");
            field(&info, name).expect("it is reported").as_int()
        };
        let capacity = number(&mut client, "Capacity");
        // A table takes memory for what is in it. Of a window it is enough that a fourth is, with two bits more for each.
        let is_window = row[1].contains("WINDOW");
        let held = if is_window { capacity / 4 } else { capacity };
        if number(&mut client, "Size") < capacity / 10 {
            for start in (0..held).step_by(50_000) {
                let items = start..held.min(start + 50_000);
                client.cmd(&format!("BF.MADD key {}", spaced(items)));
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let per_item =
            number(&mut client, "Size") as f64 / held as f64 - if is_window { 0.25 } else { 0.0 };
        let named: f64 = row[2].parse().expect("a number");
        assert!(
            (per_item / named - 1.0).abs() < 0.03,
            "{}: {per_item}",
            row[1]
        );
        client.cmd("DEL key");
    }
}

/// A digest takes its memory as values come, and so does a list of the server's.
#[test]
fn memory_of_structures_matches_the_server() {
    let (_server, mut client) = Server::with_client();
    let rows = table(
        "README.md",
        "<!-- structures: held against MEMORY USAGE by a test -->",
    );
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert!(!client.cmd(&row[2]).is_error(), "{}", row[2]);
        let values = spaced(0..5000);
        match row[2].split('.').next() {
            Some("TDIGEST") => client.cmd(&format!("TDIGEST.ADD key {values}")),
            Some("TOPK") => client.cmd(&format!("TOPK.ADD key {values}")),
            Some("PFADD key item") => client.cmd(&format!("PFADD key {values}")),
            _ => ok(),
        };
        let number = row[3].split(' ').next().expect("a number");
        let promised: i64 = number.replace(',', "").parse().expect("a number");
        let usage = client.cmd("MEMORY USAGE key SAMPLES 0").as_int();
        // The allocator rounds up, by a fifth at most where blocks are large.
        let range = 950 * promised..1250 * promised;
        assert!(range.contains(&usage), "{}: {usage} bytes", row[2]);
        client.cmd("DEL key");
    }
}

/// The memory of a Top-K is that of a full list without its items, on both pages and from the program.
#[test]
fn memory_of_a_top_k_is_what_the_program_computes() {
    let rows = table(
        "docs/top-k.md",
        "<!-- top-k: held against the program by a test -->",
    );
    let mut due: Vec<(String, String)> = rows
        .into_iter()
        .map(|row| {
            let words = row[0]
                .replace(", ", " ")
                .replace(" × ", " ")
                .replace(',', "");
            (words, row[1].clone())
        })
        .collect();
    let structures = table(
        "README.md",
        "<!-- structures: held against MEMORY USAGE by a test -->",
    );
    for row in structures {
        if let Some(words) = row[2].strip_prefix("TOPK.RESERVE key ") {
            let memory = row[3].trim_end_matches(" and the listed items");
            due.push((words.to_owned(), memory.to_owned()));
        }
    }
    assert_eq!(due.len(), 9);
    for (words, memory) in due {
        let words: Vec<&str> = words.split(' ').collect();
        let sizes = [words[0], "--width", words[1], "--depth", words[2]];
        let planned = run(&[&["size", "--json", "topk"], &sizes[..]].concat()).json();
        let bytes = planned["bytes"].as_u64().expect("a number");
        assert_eq!(format!("{} kB", bytes.div_ceil(1000)), memory, "{words:?}");
    }
}

#[test]
fn sums_of_info_match_the_server() {
    let server = Server::start();
    let rows = table(
        "docs/operating.md",
        "<!-- info: held against INFO bf by a test -->",
    );
    let mut reported: Vec<String> = server.info("bf").into_keys().collect();
    reported.sort();
    let mut described: Vec<String> = rows.into_iter().map(|mut row| row.swap_remove(0)).collect();
    described.sort();
    assert_eq!(described, reported);
}
