//! Measures the HTTP service with wrk. The service runs on the second processor, and wrk beside the server on the first.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::harness::Server;
use crate::objects::fill;
use crate::times::cpu_seconds;
use crate::{pin_to, run, server};

const SECONDS: u32 = 10;
const CONNECTIONS: u32 = 64;

/// The keys of all different requests.
const KEYS: u32 = 200_000;

/// The measured requests: name, path with `KEYS` for random keys, their number, method, and the goal.
const ROWS: [(&str, &str, u32, &str, &str); 4] = [
    ("lookups of one key", "/?KEYS", 1, "GET", "≥ 40,000, ≤ 5 ms"),
    ("insertions of one key", "/?KEYS", 1, "POST", ""),
    ("lookups of 1,000 keys", "/?KEYS", 1000, "GET", ""),
    ("errors, without the server", "/none?KEYS", 1, "GET", ""),
];

pub(crate) fn table(wanted: &dyn Fn(&str) -> bool) -> String {
    let mut table = String::new();
    if !wanted("http") {
        return table;
    }
    table += "| requests | a second | half of them | 99 % of them | cores of the service | cores of the server | goal |\n\
              |---|---|---|---|---|---|---|\n";
    for (name, path, keys, method, goal) in ROWS {
        let server = server();
        let mut client = server.client();
        let window = "BF.RESERVE mneme 0.01 100000 WINDOW 60000 PERIODS 3";
        run(&mut client, window);
        fill(&mut client, "BF.MADD", "mneme", 0..100_000);
        let service = Service::start(&server);
        let script = server.dir().join("requests.lua");
        fs::write(&script, requests(path, keys, method)).expect("the folder can be written to");
        let cpu = || (seconds_of(service.child.id()), cpu_seconds(&server));
        let before = cpu();
        let output = Command::new("taskset")
            .args(["--cpu-list", "0", "wrk", "--latency", "-t1"])
            .args([format!("-c{CONNECTIONS}"), format!("-d{SECONDS}")])
            .arg("-s")
            .arg(&script)
            .arg(&service.url)
            .output()
            .expect("build.sh has installed wrk");
        let after = cpu();
        let text = String::from_utf8(output.stdout).expect("a text");
        let word = |start: &str| {
            let mut lines = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix(start));
            lines.next().unwrap_or_else(|| panic!("{text}")).trim()
        };
        let cores = |before: f64, after: f64| (after - before) / f64::from(SECONDS);
        writeln!(
            table,
            "| {name} | {} | {} | {} | {:.2} | {:.2} | {goal} |",
            word("Requests/sec:"),
            word("50%"),
            word("99%"),
            cores(before.0, after.0),
            cores(before.1, after.1)
        )
        .expect("a String takes all");
    }
    table
}

/// Returns wrk's script for one kind of requests, which it makes before the first, so that it does little more than the
/// service has to.
fn requests(path: &str, keys: u32, method: &str) -> String {
    format!(
        "local requests, next = {{}}, 0\n\
         for r = 1, {} do\n\
         local keys = {{}}\n\
         for k = 1, {keys} do keys[k] = 'key=' .. math.random(1000000000) end\n\
         local path = string.gsub('{path}', 'KEYS', table.concat(keys, '&'))\n\
         requests[r] = '{method} ' .. path .. ' HTTP/1.1\\r\\nHost: here\\r\\nContent-Length: 0\\r\\n\\r\\n'\n\
         end\n\
         request = function()\n\
         next = next % #requests + 1\n\
         return requests[next]\n\
         end\n",
        KEYS / keys
    )
}

/// Returns the processor time of a process, user and system.
fn seconds_of(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("the name of the program");
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks
        .map(|field| field.parse::<f64>().expect("a number"))
        .sum();
    // On x86-64 and ARM64, a tick is a hundredth of a second.
    ticks / 100.0
}

/// A running service. Dropping it ends the process.
struct Service {
    child: Child,
    url: String,
}

impl Service {
    fn start(server: &Server) -> Self {
        let own = std::env::current_exe().expect("a program knows its path");
        let folder = own
            .ancestors()
            .nth(2)
            .expect("it lies in a folder of target");
        let mut child = Command::new(folder.join("valkeybloom-http"))
            .args(["--listen", "127.0.0.1:0", "--server"])
            .arg(format!("127.0.0.1:{}", server.port()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("build.sh has built the program");
        pin_to(child.id(), "1");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        let read = BufReader::new(output).read_line(&mut line);
        read.expect("the service prints its address");
        let url = line.trim().strip_prefix("listening on ");
        let url = url.expect("the service listens").to_owned();
        Self { child, url }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("the process is ours");
    }
}
