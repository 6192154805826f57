//! docs/calculator.html in a browser: its figures are those of the crate and of the program, whose plans `tool::size`
//! holds against servers.

mod browser;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::tool::run_line;

use browser::in_page;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The names of figures and their texts.
type Rows = Vec<(String, String)>;

/// Faults of the page: unreachable, unlabelled and undescribed fields.
type Faults = [Vec<String>; 3];

/// Returns what a script returns in the page, as a value of this type.
#[track_caller]
fn found<T: for<'de> serde::Deserialize<'de>>(script: &str) -> T {
    serde_json::from_value(in_page(script)).expect("the type of what the script returns")
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
    assert!(page.len() < 310_000, "{} bytes", page.len());
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
        ("forget", &["no", "window", "counting", "scaleto"]),
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
    // The answers are texts, because numbers of the page have 53 bits.
    let answers: Vec<String> = found(&format!("return {}.map(asked)", json!(forms)));
    assert_eq!(answers.len(), forms.len());
    for (form, answer) in forms.iter().zip(&answers) {
        let native = valkeybloom_planner::answer(&form.to_string());
        let [answer, native] =
            [answer, &native].map(|text| serde_json::from_str::<Value>(text).expect("JSON"));
        assert!(answer == native, "{form}: {answer} is not {native}");
    }
}

/// Options of `valkeybloom size`, and the page's fields for them.
const PLANS: [(&str, &str); 4] = [
    (
        "bloom 20k 0.01 --window 1h --periods 24",
        "items=20k&forget=window",
    ),
    ("bloom 1M 0.01 --shards 4", "shards=4"),
    (
        "cuckoo 100 --nonscaling",
        "structure=cuckoo&items=100&growth=nonscaling",
    ),
    ("cms 0.001 0.01 --cell-size 8", "structure=cms&cell_size=8"),
];

#[test]
fn the_figures_are_those_of_the_program() {
    let hashes = json!(PLANS.map(|(_, fields)| fields));
    let script = format!("return {hashes}.map((hash) => (open(hash), shown()))");
    let pages: Vec<Rows> = found(&script);
    assert_eq!(pages.len(), PLANS.len());
    for ((options, _), shown) in PLANS.iter().zip(pages) {
        let printed = run_line(&format!("size {options}")).done();
        let rows = printed.lines().map(|line| {
            let (name, text) = line.split_once("  ").expect("a name and a text");
            (name.to_owned(), text.trim_start().to_owned())
        });
        assert_eq!(shown, rows.collect::<Vec<_>>(), "{options}");
    }
}

/// The tab key reaches all fields in their order on the page, because each takes the focus, and none has a place of its
/// own in that order. Each has a label. Typing changes the plan and the address.
#[test]
fn the_page_works_without_a_mouse() {
    let script = "
        const found = ['', 'forget=window', 'structure=cuckoo', 'structure=cms', 'structure=topk', 'structure=tdigest']
            .map((hash) => {
                open(hash);
                const all = [...form.elements].filter((e) => e.id);
                const visible = all.filter((e) => e.offsetParent).concat(byId('copy'));
                const isReached = (e) => (e.focus(), document.activeElement === e && e.tabIndex === 0);
                const described = all.flatMap((e) => (e.getAttribute('aria-describedby') ?? '').split(' '));
                return [visible.length, [
                    visible.filter((e) => !isReached(e)).map((e) => e.id),
                    all.filter((e) => !e.labels?.[0]?.textContent.trim()).map((e) => e.id),
                    described.filter((id) => id && !byId(id)),
                ]];
            });
        open('');
        byId('items').focus();
        byId('items').select();
        document.execCommand('insertText', false, '5k');
        return [found, [byId('command').textContent, location.hash]];";
    let (pages, typed): (Vec<(usize, Faults)>, [String; 2]) = found(script);
    for (visible, [unreached, unlabelled, undescribed]) in pages {
        assert!(visible > 3);
        assert_eq!(unreached, [""; 0]);
        assert_eq!(unlabelled, [""; 0]);
        assert_eq!(undescribed, [""; 0]);
    }
    assert_eq!(typed, ["BF.RESERVE key 0.01 5000 EXPANSION 2", "#items=5k"]);
}

#[test]
fn the_line_of_python_stands_below_the_command() {
    let script = "
        return ['items=5k', 'forget=counting', 'maker=redisbloom', 'structure=tdigest'].map((hash) => {
            open(hash);
            return byId('in-python').checkVisibility() ? byId('in-python').textContent : '';
        });";
    let lines: [String; 4] = found(script);
    let expected = [
        "in Python: Bloom(5_000, 0.01)",
        "in Python: Bloom.counting(1_000_000, 0.01)",
        "",
        "in Python: TDigest(100)",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let script = "
        const loaded = performance.getEntriesByType('resource').map((entry) => entry.name);
        return [loaded, await fetch('https://example.org/').then(() => 'loaded', () => 'refused')];";
    let (loaded, fetched): (Vec<String>, String) = found(script);
    assert_eq!(loaded, [""; 0]);
    assert_eq!(fetched, "refused");
    assert!(
        file("docs/calculator.html").contains("default-src 'none'"),
        "the browser itself refuses requests"
    );
}

#[test]
fn nothing_overflows_on_a_phone() {
    let hashes = json!([
        "",
        "items=100M&start=1&expansion=1&forget=window",
        "items=1G&shards=fewest&rate=0.000000000000001",
        "items=x&rate=0&filter_limit=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "structure=cuckoo&items=1G",
        "structure=cms&error=1e-9",
        "structure=topk&k=4G",
        "structure=tdigest&compression=1M",
    ]);
    // The browser's window is never that narrow, but a frame may be.
    let script = format!(
        "const frame = element('iframe', {{ width: 360, height: 800, frameborder: 0, srcdoc: source }});
        document.body.replaceChildren(frame);
        await new Promise((done) => frame.onload = done);
        const page = frame.contentWindow;
        return {hashes}.map((hash) => {{
            const byId = (id) => page.document.getElementById(id);
            byId('form').reset();
            for (const [id, value] of new URLSearchParams(hash)) byId(id).value = value;
            page.show();
            return [page.innerWidth, page.document.documentElement.scrollWidth];
        }})"
    );
    let widths: Vec<[u32; 2]> = found(&script);
    assert_eq!(widths, [[360; 2]; 8]);
}

#[test]
fn a_link_keeps_the_fields() {
    let script = "
        const set = (id, value) => { byId(id).value = value; form.dispatchEvent(new Event('input')); };
        set('forget', 'window'); set('items', '2.5k'); set('rate', '0.001'); set('window', '10 min'); set('periods', '6');
        set('object_limit', '1gb');
        const hash = location.hash.slice(1), before = shown();
        open('');
        open(hash);
        const fields = ['forget', 'items', 'rate', 'window', 'periods', 'object_limit'].map((id) => byId(id).value);
        const after = shown();
        const changed = new Promise((done) => addEventListener('hashchange', done));
        location.hash = '#structure=nothing&items=7&other=1';
        await changed;
        return [[before, after], fields, [after.at(-1)[1], byId('command').textContent]];";
    let ([before, after], fields, commands): ([Rows; 2], [String; 6], [String; 2]) = found(script);
    assert_eq!(after, before);
    assert_eq!(fields, ["window", "2.5k", "0.001", "10 min", "6", "1gb"]);
    // A link to other fields on the open page replaces them, and unknown words are ignored.
    let expected = [
        "BF.RESERVE key 0.001 2500 EXPANSION 2 WINDOW 600000 PERIODS 6",
        "BF.RESERVE key 0.01 7 EXPANSION 2",
    ];
    assert_eq!(commands, expected);
}

/// What is wrong stands at the field, in its own words, and the figures are marked as old ones.
#[test]
fn wrong_words_are_explained_at_their_field() {
    let script = "
        const faults = (hash) => (open(hash), [...document.querySelectorAll('[aria-invalid=true]')].map((field) =>
            byId(`${field.id}-fault`).textContent));
        const all = ['', 'items=&rate=2', 'start=x&expansion=1.5&shards=-1&filter_limit=abc', 'forget=window&periods=0&window=x',
            'structure=cuckoo&bucket_size=-1&max_iterations=x&max_filters=x', 'structure=cms&error=x&probability=x',
            'structure=tdigest&compression=x', 'structure=topk&k=0&width=x&depth=x&decay=NaN'].map(faults);
        return [all, byId('plan').classList.contains('old'), /NaN|undefined/.test(byId('plan').innerText)];";
    let (faults, is_old, has_junk): (Vec<Vec<String>>, bool, bool) = found(script);
    let counts: Vec<usize> = faults.iter().map(Vec::len).collect();
    assert_eq!(counts, [0, 2, 4, 2, 3, 2, 1, 4], "{faults:?}");
    let expected = [
        "Number of items: a value is missing",
        "Error rate: not between 0 and 1",
    ];
    assert_eq!(faults[1], expected);
    assert!(
        is_old,
        "the figures of earlier values look like current ones"
    );
    assert!(!has_junk);
}
