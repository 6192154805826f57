//! docs/calculator.html in a browser: its figures are those of the crate, of the program, and of servers.

mod browser;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Client, Reply, Server, ok};
use crate::tool::run;

use browser::Browser;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn address(hash: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/calculator.html");
    format!("file://{page}#{hash}")
}

/// Returns the text of the row of a figure, as the page shows it.
fn shown(browser: &mut Browser) -> Vec<(String, String)> {
    let rows = "[...document.querySelectorAll('#rows tr')].map((row) => [...row.children].map((cell) => cell.textContent))";
    let mut rows: Vec<(String, String)> =
        serde_json::from_value(browser.value(rows)).expect("pairs of texts");
    let command = "[byId('command').textContent, byId('others').textContent]";
    let [command, others]: [String; 2] =
        serde_json::from_value(browser.value(command)).expect("two texts");
    let command = format!("{command}   {others}").trim_end().to_owned();
    rows.push(("command".to_owned(), command));
    rows
}

/// The page but for the WebAssembly, whose bytes depend on the compiler: the test below runs it.
#[test]
fn the_page_is_made_of_its_source() {
    let page = file("docs/calculator.html");
    let (before, rest) = page
        .split_once("<script id=\"wasm\" type=\"application/wasm\">")
        .expect("the page has the WebAssembly");
    let (wasm, after) = rest.split_once("</script>\n").expect("it ends");
    assert!(wasm.len() > 10_000);
    let (start, compiler) = before
        .split_once("<meta name=\"compiler\" content=\"")
        .expect("the page names its compiler");
    let (_, end) = compiler.split_once('"').expect("a name");
    let made = format!("{start}<meta name=\"compiler\"{end}<WASM>{after}");

    let folder = "crates/calculator/page";
    let style = format!("<style>\n{}</style>", file(&format!("{folder}/style.css")));
    let script = format!(
        "<WASM><script>\n{}</script>",
        file(&format!("{folder}/page.js"))
    );
    let source = file(&format!("{folder}/page.html"))
        .replace("<link rel=\"stylesheet\" href=\"style.css\">", &style)
        .replace("<script src=\"page.js\"></script>", &script);
    assert!(
        made == source,
        "docs/calculator.html is out of date: ./build.sh calculator"
    );
    assert!(page.len() < 300_000, "{} bytes", page.len());
}

/// Returns every combination of these words for the fields.
fn grid(fields: &[(&str, &[&str])]) -> Vec<Value> {
    let mut all = vec![json!({})];
    for (field, words) in fields {
        let with = |form: &Value| {
            let form = form.clone();
            words.iter().map(move |word| {
                let mut form = form.clone();
                form[field] = (*word).into();
                form
            })
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// A machine of 32 bits in the browser answers like the crate on this one, to the last digit.
#[test]
fn the_webassembly_answers_like_the_crate() {
    let sizes: &[&str] = &["1", "2500", "1M", "1.5G"];
    let mut forms = grid(&[
        ("items", sizes),
        ("rate", &["0.5", "0.01", "1e-9"]),
        ("start", &["", "100"]),
        ("forget", &["no", "window", "counting"]),
        ("window", &["1h"]),
        ("periods", &["24"]),
        ("maker", &["own", "redisbloom", "valkey-bloom"]),
    ]);
    forms.extend(grid(&[
        ("items", sizes),
        ("rate", &["0.001"]),
        ("growth", &["nonscaling"]),
        ("shards", &["", "3", "fewest"]),
        ("object_limit", &["", "100kb"]),
    ]));
    forms.extend(grid(&[
        ("structure", &["cuckoo"]),
        ("items", sizes),
        ("start", &["", "64", "1k"]),
        ("bucket_size", &["", "1", "255"]),
        ("expansion", &["", "2"]),
        ("max_filters", &["", "4"]),
    ]));
    forms.extend(grid(&[
        ("structure", &["cms"]),
        ("error", &["0.5", "0.001", "1e-12", "1e-300"]),
        ("probability", &["0.5", "1e-9"]),
        ("cell_size", &["1", "8"]),
    ]));
    forms.extend(grid(&[
        ("structure", &["topk"]),
        ("k", &["1", "100", "5G"]),
        ("width", &["", "2k"]),
        ("decay", &["", "1", "2"]),
    ]));
    forms.extend(grid(&[
        ("structure", &["tdigest"]),
        ("compression", &["1", "100", "1M", "357913940", "x", ""]),
    ]));
    let mut browser = Browser::start();
    browser.open(&address(""));
    for form in forms {
        let native: Value =
            serde_json::from_str(&valkeybloom_planner::answer(&form.to_string())).expect("JSON");
        // As a text: numbers of the page have 53 bits.
        let found = browser.value(&format!("asked({form})"));
        let found: Value = serde_json::from_str(found.as_str().expect("a text")).expect("JSON");
        assert!(found == native, "{form}: {found} is not {native}");
    }
}

/// Rows of the options of `valkeybloom size`, and of the page's fields.
const PLANS: [(&str, &str); 16] = [
    ("--items 1000 --rate 0.01", "items=1000"),
    (
        "--items 40k --rate 0.001 --nonscaling",
        "items=40k&rate=0.001&growth=nonscaling",
    ),
    (
        "--items 20000 --rate 0.01 --growing-from 50",
        "items=20000&start=50",
    ),
    (
        "--items 9k --rate 0.02 --growing-from 100 --expansion 1",
        "items=9k&rate=0.02&start=100&expansion=1",
    ),
    (
        "--items 3000 --rate 0.01 --counting",
        "items=3000&forget=counting",
    ),
    (
        "--items 20k --rate 0.01 --window 1h --periods 24",
        "items=20k&forget=window",
    ),
    (
        "--items 5000 --rate 0.01 --growing-from 100 --kind redisbloom",
        "items=5000&start=100&maker=redisbloom",
    ),
    (
        "--items 700 --rate 0.001 --nonscaling --kind redisbloom",
        "items=700&rate=0.001&growth=nonscaling&maker=redisbloom",
    ),
    (
        "--items 5000 --rate 0.01 --growing-from 100 --kind valkey-bloom",
        "items=5000&start=100&maker=valkey-bloom",
    ),
    ("--items 1M --rate 0.01 --shards 4", "shards=4"),
    ("--items 1000 --cuckoo", "structure=cuckoo&items=1000"),
    (
        "--items 5000 --cuckoo --bucket-size 4 --max-iterations 50 --growing-from 1k --expansion 2",
        "structure=cuckoo&items=5000&bucket_size=4&max_iterations=50&start=1k&expansion=2",
    ),
    (
        "--items 100 --cuckoo --nonscaling",
        "structure=cuckoo&items=100&growth=nonscaling",
    ),
    (
        "--cms --error 0.001 --probability 0.01 --cell-size 8",
        "structure=cms&cell_size=8",
    ),
    ("--topk 100 --width 2000", "structure=topk"),
    ("--tdigest 500", "structure=tdigest&compression=500"),
];

/// Returns the reply of a command of the INFO kind, as pairs.
fn info(client: &mut Client, command: &str, name: &str) -> i64 {
    let reply = client.cmd(&format!("{command} key"));
    let pair = reply
        .as_array()
        .chunks(2)
        .find(|pair| pair[0].text() == name);
    pair.unwrap_or_else(|| panic!("no {name} in {reply:?}"))[1].as_int()
}

#[test]
fn the_figures_are_those_of_the_program_and_of_a_server() {
    let server = Server::start();
    let mut client = server.client();
    let mut browser = Browser::start();
    for (options, fields) in PLANS {
        browser.open(&address(fields));
        let words: Vec<&str> = options.split(' ').collect();
        let printed = run(&[&["size"], &words[..]].concat()).done();
        let rows = printed.lines().map(|line| {
            let (name, text) = line.split_once("  ").expect("a name and a text");
            (name.to_owned(), text.trim_start().to_owned())
        });
        assert_eq!(shown(&mut browser), rows.collect::<Vec<_>>(), "{options}");

        let values = run(&[&["size", "--json"], &words[..]].concat()).json();
        let number = |name: &str| {
            values[name]
                .as_i64()
                .unwrap_or_else(|| panic!("{name}: {values}"))
        };
        let maker = values["setting"]
            .as_str()
            .unwrap_or("bf.bloom-new-filters own");
        assert_eq!(client.cmd(&format!("CONFIG SET {maker}")), ok());
        let command = values["command"].as_str().expect("a command");
        assert_eq!(client.cmd(command), ok(), "{command}");
        client.cmd("RENAMENX key:0 key");
        match command.split_once('.').expect("a family").0 {
            "BF" => {
                let shards = values["shards"].as_i64().unwrap_or(1);
                let made = info(&mut client, "BF.INFO", "Size");
                assert_eq!(made * shards, number("bytes_when_made"), "{options}");
            }
            "CF" => {
                // The fields of CF.INFO have RedisBloom's sizes.
                let made = server.info("bf")["bf_cuckoo_total_memory_bytes"].clone();
                assert_eq!(made, number("bytes_when_made").to_string(), "{options}");
                if number("filters_at_least") == 1 {
                    let size = values["command"]
                        .as_str()
                        .map_or(2, |text| if text.contains("BUCKETSIZE") { 4 } else { 2 });
                    let slots = info(&mut client, "CF.INFO", "Number of buckets") * size;
                    assert_eq!(slots, number("slots"), "{options}");
                }
            }
            "CMS" => {
                for name in ["width", "depth"] {
                    assert_eq!(
                        info(&mut client, "CMS.INFO", name),
                        number(name),
                        "{options}"
                    );
                }
                let made = server.info("bf")["bf_cms_total_memory_bytes"].clone();
                assert_eq!(made, number("bytes").to_string(), "{options}");
            }
            "TOPK" => {
                for (field, name) in [
                    ("k", "items_listed"),
                    ("width", "width"),
                    ("depth", "depth"),
                ] {
                    assert_eq!(
                        info(&mut client, "TOPK.INFO", field),
                        number(name),
                        "{options}"
                    );
                }
            }
            _ => assert_eq!(
                info(&mut client, "TDIGEST.INFO", "Capacity"),
                number("nodes"),
                "{options}"
            ),
        }
        if values["bytes_when_made"].is_number() && values["shards"].is_null()
            || command.starts_with("CMS")
        {
            // The server adds the key and its entries, and the allocator rounds up.
            let planned = values["bytes_when_made"]
                .as_i64()
                .or(values["bytes"].as_i64())
                .expect("a size");
            let used = client.cmd("MEMORY USAGE key").as_int();
            assert!(
                (planned..planned + planned / 4 + 400).contains(&used),
                "{options}: {used} of {planned}"
            );
        }
        assert_eq!(client.cmd("FLUSHALL"), ok());
    }
    assert!(browser.errors().is_empty(), "{:?}", browser.errors());
}

/// The planned filters of peers' kinds grow as planned, too.
#[test]
fn filters_of_the_peers_grow_as_planned() {
    let server = Server::start();
    let mut client = server.client();
    for kind in ["own", "redisbloom", "valkey-bloom"] {
        let options = [
            "size",
            "--json",
            "--rate",
            "0.01",
            "--items",
            "5000",
            "--growing-from",
            "100",
            "--kind",
            kind,
        ];
        let values = run(&options).json();
        assert_eq!(
            client.cmd(&format!("CONFIG SET bf.bloom-new-filters {kind}")),
            ok()
        );
        assert_eq!(
            client.cmd(values["command"].as_str().expect("a command")),
            ok()
        );
        let mut next = 0;
        while info(&mut client, "BF.INFO", "Number of items inserted") < 5000 {
            next += 1;
            assert!(matches!(
                client.cmd(&format!("BF.ADD key {next}")),
                Reply::Int(_)
            ));
        }
        for (field, name) in [
            ("Size", "bytes_when_full"),
            ("Number of filters", "filters"),
        ] {
            assert_eq!(
                Some(info(&mut client, "BF.INFO", field)),
                values[name].as_i64(),
                "{kind}"
            );
        }
        assert_eq!(client.cmd("DEL key").as_int(), 1);
    }
}

/// All fields are reached with the tab key in order, and each has a label. Typing changes the plan and the address.
#[test]
fn the_page_works_without_a_mouse() {
    let mut browser = Browser::start();
    for fields in [
        "",
        "forget=window",
        "structure=cuckoo",
        "structure=cms",
        "structure=topk",
        "structure=tdigest",
    ] {
        browser.open(&address(fields));
        let visible = "[...form.elements].filter((e) => e.id && e.offsetParent).map((e) => e.id).concat('copy')";
        let expected: Vec<String> = serde_json::from_value(browser.value(visible)).expect("names");
        assert!(expected.len() > 3);
        let mut reached = Vec::new();
        for _ in &expected {
            browser.press("Tab", 9);
            reached.push(
                browser
                    .value("document.activeElement.id")
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        assert_eq!(reached, expected, "{fields}");
        let unlabelled = "[...form.elements].filter((e) => e.id && !e.labels?.[0]?.textContent.trim()).map((e) => e.id)";
        assert_eq!(browser.value(unlabelled), json!([]));
        let undescribed = "[...form.elements].flatMap((e) => (e.getAttribute('aria-describedby') ?? '').split(' '))\
            .filter((id) => id && !byId(id))";
        assert_eq!(browser.value(undescribed), json!([]));
    }
    browser.open(&address(""));
    browser.value("byId('items').focus(), byId('items').select()");
    browser.type_text("5k");
    assert_eq!(
        browser.value("byId('command').textContent"),
        "BF.RESERVE key 0.01 5000"
    );
    assert_eq!(browser.value("location.hash"), "#items=5k");
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let page = file("docs/calculator.html");
    assert!(
        page.contains("default-src 'none'"),
        "the browser itself refuses requests"
    );
    let mut browser = Browser::start();
    let address = address("");
    browser.open(&address);
    let refused = "fetch('https://example.org/').then(() => 'loaded', () => 'refused')";
    assert_eq!(browser.value(refused), "refused");
    let own = address.trim_end_matches('#');
    let elsewhere: Vec<String> = browser.requested();
    let elsewhere = elsewhere
        .iter()
        .filter(|url| url.trim_end_matches('#') != own);
    // The refused request is reported, but not sent.
    let elsewhere: Vec<&String> = elsewhere
        .filter(|url| *url != "https://example.org/")
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

#[test]
fn nothing_overflows_on_a_phone() {
    let mut browser = Browser::start();
    browser.set_width(360);
    for fields in [
        "",
        "items=100M&start=1&expansion=1&forget=window",
        "items=1G&shards=fewest&rate=0.000000000000001",
        "items=x&rate=0&filter_limit=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "structure=cuckoo&items=1G",
        "structure=cms&error=1e-9",
        "structure=topk&k=4G",
        "structure=tdigest&compression=1M",
    ] {
        browser.open(&address(fields));
        let width = browser.value("document.documentElement.scrollWidth");
        assert_eq!(width, 360, "{fields}");
    }
}

#[test]
fn a_link_keeps_the_fields() {
    let mut browser = Browser::start();
    browser.open(&address(""));
    let set = "const set = (id, value) => { byId(id).value = value; form.dispatchEvent(new Event('input')); };\
        set('forget', 'window'); set('items', '2.5k'); set('rate', '0.001'); set('window', '10 min'); set('periods', '6');\
        set('object_limit', '1gb'); location.hash";
    let hash = browser.value(set);
    let hash = hash
        .as_str()
        .expect("a text")
        .trim_start_matches('#')
        .to_owned();
    let before = shown(&mut browser);
    browser.open(&address(&hash));
    assert_eq!(shown(&mut browser), before);
    let fields = "['forget', 'items', 'rate', 'window', 'periods', 'object_limit'].map((id) => byId(id).value)";
    assert_eq!(
        browser.value(fields),
        json!(["window", "2.5k", "0.001", "10 min", "6", "1gb"])
    );
    assert_eq!(
        before.last().expect("a command").1,
        "BF.RESERVE key 0.001 2500 WINDOW 600000 PERIODS 6"
    );
    // A link to other fields on the open page replaces them, and unknown words are ignored.
    browser.value("location.hash = '#structure=nothing&items=7&other=1'");
    let awaited = "new Promise((done) => addEventListener('hashchange', () => setTimeout(done)))";
    browser.value(&format!("{awaited}.then(() => 0), location.hash += '&'"));
    browser.value("restore()");
    assert_eq!(
        shown(&mut browser).last().expect("a command").1,
        "BF.RESERVE key 0.01 7"
    );
}

/// What is wrong stands at the field, in its own words.
#[test]
fn wrong_words_are_explained_at_their_field() {
    let words = [
        "",
        "0",
        "-1",
        "1e30",
        "abc",
        "NaN",
        "1.5",
        "∞",
        "<b>",
        "99999999999999999999",
    ];
    let numbers = [
        ("", "items", "Number of items"),
        ("", "start", "Capacity at the start"),
        ("", "expansion", "Expansion"),
        ("forget=window&", "periods", "Periods"),
        ("forget=window&", "window", "Length of a period"),
        ("", "shards", "Shards"),
        ("", "filter_limit", "Limit of a filter"),
        ("structure=cuckoo&", "bucket_size", "Bucket size"),
        ("structure=cuckoo&", "max_iterations", "Iterations"),
        ("structure=cuckoo&", "max_filters", "Most filters of a key"),
        ("structure=topk&", "k", "Items listed"),
        ("structure=topk&", "width", "Width"),
        ("structure=topk&", "depth", "Depth"),
        ("structure=topk&", "decay", "Decay"),
        ("structure=tdigest&", "compression", "Compression"),
        ("", "rate", "Error rate"),
        ("structure=cms&", "error", "Error"),
        ("structure=cms&", "probability", "Probability"),
    ];
    let mut browser = Browser::start();
    for (others, field, label) in numbers {
        browser.open(&address(others.trim_end_matches('&')));
        let (mut wrong, mut unmarked) = (0, Vec::new());
        for word in words {
            let set = format!(
                "byId('{field}').value = {}; form.dispatchEvent(new Event('input')); \
                 [byId('{field}').getAttribute('aria-invalid'), byId('{field}-fault').textContent, \
                  document.body.innerText, byId('plan').classList.contains('old')]",
                json!(word)
            );
            let (invalid, text, page, old): (String, String, String, bool) =
                serde_json::from_value(browser.value(&set)).expect("texts");
            assert!(
                !page.contains("NaN") && !page.contains("undefined"),
                "{field} {word}: {page}"
            );
            if invalid == "true" {
                assert!(
                    text.starts_with(&format!("{label}: ")) && text.len() > label.len() + 5,
                    "{text}"
                );
                assert!(old, "the figures of earlier values look like current ones");
                wrong += 1;
            } else {
                assert_eq!(text, "");
                unmarked.push(word);
            }
        }
        // Some words are right in some fields: an empty one may mean a default, and 0 no limit.
        let may_be_right = ["", "0", "1e30", "1.5"];
        assert!(
            unmarked.iter().all(|word| may_be_right.contains(word)),
            "{field}: {unmarked:?}"
        );
        assert!(wrong >= 6, "{field}: {unmarked:?}");
    }
    browser.open(&address("items=&rate=2"));
    let faults = "[byId('items-fault').textContent, byId('rate-fault').textContent]";
    assert_eq!(
        browser.value(faults),
        json!([
            "Number of items: a value is missing",
            "Error rate: not between 0 and 1"
        ])
    );
    assert!(browser.errors().is_empty(), "{:?}", browser.errors());
}
