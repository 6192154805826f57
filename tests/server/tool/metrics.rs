//! `valkeybloom list --prometheus`: metrics that Prometheus accepts, and the alerts of docs/alerts.yml on them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::harness::cluster::nodes;
use crate::harness::{Client, Server, int, promtool};
use crate::support::protocols::with_fixed_seed;

use super::session::replay;
use super::{add, command, file, info, load_partly, numbered, run, url};

const ALERTS: &str = "docs/alerts.yml";

/// Returns the metrics of a server.
fn metrics(server: &Server) -> String {
    run(&["list", &url(server), "--prometheus", "--quiet"]).done()
}

/// Requires that promtool finds nothing to complain about.
#[track_caller]
pub fn assert_valid(metrics: &str) {
    let mut check = Command::new(promtool())
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tools/servers.sh has brought promtool");
    let mut input = check.stdin.take().expect("a pipe");
    input.write_all(metrics.as_bytes()).expect("promtool reads");
    drop(input);
    let output = check.wait_with_output().expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && said.is_empty(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}

/// Makes a key of each family but Bloom filters.
fn make_sketches(client: &mut Client) {
    for command in [
        "CF.ADD cuckoo a",
        "TOPK.RESERVE top 3",
        "CMS.INITBYDIM counts 10 2",
        "TDIGEST.CREATE digest",
    ] {
        client.run(command);
    }
}

#[test]
fn metrics_are_valid_and_replace_a_file_at_once() {
    let server = with_fixed_seed();
    let mut client = server.client();
    assert_valid(&metrics(&server));
    for key in [
        &b"plain"[..],
        b"quo\"te",
        b"back\\slash",
        b"new\nline",
        b"bell\x07 and \x1b[2J",
        b"\xff",
        "größe".as_bytes(),
        b"",
    ] {
        assert_eq!(client.call(&[b"BF.ADD", key, b"item"]), int(1));
    }
    client.expect("EXPIRE plain 100", int(1));
    make_sketches(&mut client);
    client.run("BF.READ plain $");
    let text = metrics(&server);
    assert_valid(&text);
    replay("metrics.txt", &[&server]);

    let file = server.dir().join("valkeybloom.prom");
    let path = file.to_str().expect("ASCII");
    fs::write(&file, "old").expect("the folder can be written to");
    run(&["list", &url(&server), "--prometheus", path]).done();
    let written = fs::read_to_string(&file).expect("it was written");
    let stable = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| !line.contains("_memory_used_") && !line.contains("_ttl_"));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(stable(&written), stable(&text));
    let left = fs::read_dir(server.dir()).expect("a folder");
    let left = left.filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_string_lossy().ends_with(".tmp")
    });
    assert_eq!(left.count(), 0);
}

/// A link stays a link, a file keeps its permissions, and a pipe takes the metrics.
#[test]
fn the_file_stays_what_it_is() {
    let server = Server::start();
    let write = |path: &Path| {
        let path = path.to_str().expect("ASCII");
        run(&["list", &url(&server), "--prometheus", path]).done();
    };
    let [target, link, fifo] =
        ["a.prom", "link.prom", "fifo.prom"].map(|name| server.dir().join(name));
    // The longest name that a folder takes.
    let long = server.dir().join(format!("{}.prom", "x".repeat(250)));
    write(&long);
    assert!(long.is_file());
    fs::write(&target, "old").expect("the folder can be written to");
    fs::set_permissions(&target, Permissions::from_mode(0o640)).expect("it is ours");
    symlink("a.prom", &link).expect("the folder can be written to");
    write(&link);
    assert!(link.is_symlink());
    let written = fs::read_to_string(&target).expect("it was written");
    assert!(written.contains("valkeybloom_keys"), "{written}");
    let kept = fs::metadata(&target).expect("it is there").permissions();
    assert_eq!(kept.mode() & 0o777, 0o640);
    // Links whose file is still to come.
    let ends = ["folder/b.prom", "between.prom", "first.prom"];
    let [end, between, first] = ends.map(|name| server.dir().join(name));
    fs::create_dir(server.dir().join("folder")).expect("the folder can be written to");
    symlink("folder/b.prom", &between).expect("the folder can be written to");
    symlink(&between, &first).expect("the folder can be written to");
    write(&first);
    assert!(first.is_symlink() && between.is_symlink() && end.is_file());

    // As a shell does for `>>a.prom`.
    let open = File::options().append(true).open(&target);
    let address = url(&server);
    let mut appending = command(&["list", &address, "--prometheus", "/dev/stdout"]);
    let status = appending.stdout(open.expect("it is there")).status();
    assert!(status.expect("the program runs").success());
    let longer = fs::read_to_string(&target).expect("it is there");
    let rest = longer.strip_prefix(&written).expect("it was appended to");
    assert!(rest.contains("valkeybloom_keys"), "{rest}");
    // A pipe whose reader has gone.
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let mut broken = command(&["list", &address, "--prometheus", "/dev/stdout"]);
    let status = broken.stdout(writer).status();
    assert_eq!(status.expect("the program runs").code(), Some(141));

    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo is there").success());
    let reading = thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo)
    });
    write(&fifo);
    // A file in its place would leave the reader waiting.
    let kind = fs::metadata(&fifo).expect("it is there").file_type();
    assert!(kind.is_fifo());
    let read = reading.join().expect("no panic").expect("it was written");
    assert!(read.contains("valkeybloom_keys"), "{read}");
}

/// Requires that a text names all metrics, in backticks, and no others that begin like them.
#[track_caller]
pub fn assert_documented(metrics: &str, text: &str, start: &str) {
    let types = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let written: BTreeSet<_> = types.filter_map(|line| line.split(' ').next()).collect();
    let named = text.split('`').filter(|word| word.starts_with(start));
    assert_eq!(named.collect::<BTreeSet<_>>(), written);
}

#[test]
fn every_metric_is_documented() {
    let server = Server::start();
    server.client().ok("CONFIG SET maxmemory 1gb");
    let text = metrics(&server);
    let page = fs::read_to_string("docs/operating.md").expect("the page is there");
    let (_, table) = page
        .split_once("<!-- metrics: held against the program by a test -->")
        .expect("the mark");
    let (table, _) = table.split_once("\n\n").expect("the table ends");
    assert_documented(&text, table, "valkeybloom_");
}

/// A limit that only some nodes have does not bound the memory of all.
#[test]
fn a_cluster_has_a_memory_limit_if_all_its_primaries_have() {
    let nodes = nodes(2, 2, Duration::from_secs(30));
    let limit = || {
        let text = metrics(&nodes[0]);
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("valkeybloom_server_memory_limit_bytes"));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value.map(str::to_owned)
    };
    assert_eq!(limit(), None);
    nodes[0].client().ok("CONFIG SET maxmemory 1gb");
    assert_eq!(limit(), None);
    nodes[1].client().ok("CONFIG SET maxmemory 2gb");
    assert_eq!(limit().as_deref(), Some("3221225472"));
    nodes[0].client().ok("CONFIG SET maxmemory 0");
    assert_eq!(limit(), None);
}

/// Alerts by name, each with the keys that it fires for.
type Fired<'f> = &'f [(&'f str, &'f [&'f str])];

/// Returns the text of an annotation in docs/alerts.yml.
fn annotation(alert: &str, name: &str, key: &str, server: &str) -> String {
    let all = fs::read_to_string(ALERTS).expect("the file is there");
    let (_, rule) = all
        .split_once(&format!("alert: {alert}\n"))
        .expect("the alert");
    let (_, text) = rule
        .split_once(&format!(" {name}: \""))
        .expect("the annotation");
    let (text, _) = text.split_once("\"\n").expect("it ends");
    let text = text.replace("{{ $labels.key }}", key);
    text.replace("{{ $labels.server }}", server)
}

/// Requires that exactly these alerts fire for a server that stays as it is. Alerts without keys are the server's.
#[track_caller]
fn assert_fires(server: &Server, fired: Fired<'_>) {
    let address = format!("127.0.0.1:{}", server.port());
    let metrics = metrics(server);
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join(ALERTS);
    let mut test = format!(
        "rule_files: ['{}']\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n",
        rules.display()
    );
    for line in lines {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let series = series.replace('\'', "''");
        writeln!(test, "  - series: '{series}'\n    values: '{value}+0x30'")
            .expect("a String takes all");
    }
    test += "  alert_rule_test:\n";
    let names = [
        "NearLimit",
        "DeepStack",
        "PartlyLoaded",
        "AboveRate",
        "Memory",
        "Gone",
        "Stale",
    ];
    for name in names {
        let alert = format!("Valkeybloom{name}");
        writeln!(
            test,
            "  - eval_time: 20m\n    alertname: {alert}\n    exp_alerts:"
        )
        .expect("a String takes all");
        let keys = fired.iter().find(|(fires, _)| *fires == name);
        for key in keys.map_or(&[][..], |(_, keys)| keys) {
            let (severity, of) = if name == "Memory" {
                ("critical", String::new())
            } else {
                let kind = server.client().cmd(&format!("TYPE {key}")).text();
                ("warning", format!("key: '{key}', type: {kind}, db: '0', "))
            };
            let said = |name| annotation(&alert, name, key, &address);
            writeln!(
                test,
                "    - exp_labels: {{{of}server: '{address}', severity: {severity}}}\n      exp_annotations:\n        \
                 summary: \"{}\"\n        description: \"{}\"",
                said("summary"),
                said("description")
            )
            .expect("a String takes all");
        }
    }
    assert_holds(file(server, "alerts-test.yml", test));
}

/// Requires what a file of promtool says of the rules.
#[track_caller]
fn assert_holds(file: impl AsRef<Path>) {
    let mut check = Command::new(promtool());
    let output = check.args(["test", "rules"]).arg(file.as_ref()).output();
    let output = output.expect("tools/servers.sh has brought promtool");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}

fn make_healthy(client: &mut Client) {
    client.ok("CONFIG SET maxmemory 1gb");
    client.ok("BF.RESERVE fine 0.01 1000");
    add(client, "fine", &numbered("item", 0..900));
    client.ok("BF.RESERVE window 0.01 100 WINDOW 3600000 PERIODS 24");
    add(client, "window", &numbered("item", 0..50));
    make_sketches(client);
}

#[test]
fn every_alert_fires_when_it_should() {
    let server = Server::start();
    let mut client = server.client();
    make_healthy(&mut client);
    client.ok("BF.RESERVE near 0.01 1000 NONSCALING");
    add(&mut client, "near", &numbered("item", 0..950));
    assert_fires(&server, &[("NearLimit", &["near"])]);
    client.expect("DEL near", int(1));

    // The limit of a window is that of all its periods.
    client.ok("CONFIG SET bf.bloom-filter-max-memory-usage 12000");
    client.expect("DEL fine", int(1));
    for (key, growth) in [("grows", ""), ("fixed", " NONSCALING")] {
        client.ok(format!(
            "BF.RESERVE {key} 0.01 1000{growth} WINDOW 100000000000 PERIODS 4"
        ));
        for ttl in ["1", "100000000000", "200000000000", "300000000000"] {
            let insert = format!("BF.INSERT {key} TTL {ttl} ITEMS");
            let items = (0..600).map(|item| format!(" {ttl}:{item}"));
            client.run(&(insert + &items.collect::<String>()));
        }
    }
    assert_fires(&server, &[]);
    for (key, field) in [("grows", "Max scaled capacity"), ("fixed", "Capacity")] {
        let most = info(&mut client, key, field).as_int();
        let more = u32::try_from(most * 96 / 100 - 2400).expect("few");
        add(&mut client, key, &numbered("item", 0..more));
    }
    assert_fires(&server, &[("NearLimit", &["fixed", "grows"])]);
    client.expect("DEL grows fixed", int(2));
    client.ok("CONFIG SET bf.bloom-filter-max-memory-usage 64mb");

    client.ok("BF.RESERVE deep 0.01 1 EXPANSION 1");
    add(&mut client, "deep", &numbered("item", 0..1000));
    assert_fires(&server, &[("DeepStack", &["deep"])]);
    client.expect("DEL deep", int(1));

    client.ok("CONFIG SET bf.bloom-saturate-nonscaling yes");
    client.ok("BF.RESERVE worse 0.01 100 NONSCALING");
    add(&mut client, "worse", &numbered("item", 0..400));
    assert_fires(
        &server,
        &[("AboveRate", &["worse"]), ("NearLimit", &["worse"])],
    );
    client.expect("DEL worse", int(1));

    load_partly(&mut client, "half");
    assert_fires(&server, &[("PartlyLoaded", &["half"])]);
    client.expect("DEL half", int(1));

    let used: u64 = server.info("memory")["used_memory"]
        .trim()
        .parse()
        .expect("a number");
    let tight = used + used / 100;
    client.ok(format!("CONFIG SET maxmemory {tight}"));
    assert_fires(&server, &[("Memory", &[""])]);
}

/// Of keys that have no time to live and whose server still answers, and of a collector's file.
#[test]
fn what_is_gone_or_old_is_reported() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_holds(root.join("tests/server/tool/alerts.yml"));
}
