//! Options in a file and in the environment, and the token.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;

use super::reached::at;
use super::*;

/// Runs the service with a file of options, which it refuses.
#[track_caller]
fn refusal(server: &Server, text: &str) -> String {
    let path = server.dir().join("http.toml");
    fs::write(&path, text).expect("the folder can be written to");
    let path = path.to_str().expect("ASCII");
    let mut command = Command::new(example::valkeybloom_http());
    let output = command.args(["--config", path]).output();
    let output = output.expect("the program runs");
    let said = String::from_utf8(output.stderr).expect("a text");
    assert_eq!(output.status.code(), Some(2), "{text}: {said}");
    assert!(output.stdout.is_empty());
    let start = format!("valkeybloom-http: {path}: ");
    let why = said.trim_end().strip_prefix(&start);
    why.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn an_invalid_file_is_refused() {
    let server = Server::start();
    for (text, why) in [
        ("period = 3", "period: there is no such option"),
        ("config = \"a\"", "config: there is no such option"),
        ("help = 1", "help: there is no such option"),
        ("token = \"a\"", "token: there is no such option"),
        ("error_rate = 0.1", "error_rate: there is no such option"),
        ("periods = -1", "periods: -1 is not in 1..=60000"),
        ("periods = 1.5", "periods: invalid digit found in string"),
        ("periods = 60001", "periods: 60001 is not in 1..=60000"),
        ("periods = true", "periods: not a text or a number"),
        ("periods = [3]", "periods: not a text or a number"),
        ("[periods]", "periods: not a text or a number"),
        ("length = \"soon\"", "length: not a number"),
        (
            "length = -1",
            "length: cannot convert float seconds to Duration: value is negative",
        ),
        ("timeout = 0", "timeout: it has to be larger than 0"),
        ("connections = 0", "connections: 0 is not in 1..=4294967295"),
        ("size = nan", "size: invalid digit found in string"),
        ("key = \"a\"\nperiods =", "line 2: "),
        ("key = \"a\"\nkey = \"b\"", "line 2: duplicate key"),
        ("server = redis://user:secret@host", "line 1: "),
    ] {
        let had = refusal(&server, text);
        assert!(had.starts_with(why), "{text}: {had}");
        assert!(!had.contains("secret"), "{had}");
    }
    let mut command = Command::new(example::valkeybloom_http());
    let output = command.args(["--config", "/none/http.toml"]).output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("valkeybloom-http: /none/http.toml: No such file"),
        "{said}"
    );
}

/// The last of file, environment and command line counts.
#[test]
fn the_command_line_overrides_the_environment_and_the_file() {
    let server = Server::start();
    let path = server.dir().join("http.toml");
    let text = format!(
        "periods = 2\nlength = 1.5\nsize = 10\nerror-rate = 0.001\nkey = \"of a file\"\n\
         listen = \"127.0.0.1:0\"\nserver = \"{}\"\n",
        // No server is there.
        "redis://127.0.0.1:1"
    );
    fs::write(&path, text).expect("the folder can be written to");
    let path = path.to_str().expect("ASCII");
    let mut command = Command::new(example::valkeybloom_http());
    command.args(["--config", path, "--periods", "5"]);
    command.env(
        "VALKEYBLOOM_HTTP_SERVER",
        format!("127.0.0.1:{}", server.port()),
    );
    let service = Service::run(command);
    assert_eq!(service.insert("key=a"), missing(&["a"]));
    let mut client = server.client();
    let info = client.call(&[b"BF.INFO", b"of a file", b"ALL"]);
    let fields = info.as_array().chunks(2);
    let value = |name: &str| {
        let mut fields = fields.clone();
        let field = fields.find(|field| field[0].text() == name);
        field.expect("the field")[1].as_int()
    };
    assert_eq!((value("Window"), value("Periods")), (1500, 5));
}

#[test]
fn the_example_has_the_defaults_of_all_options() {
    let server = Server::start();
    let example = include_str!("../../../crates/http/http.toml");
    let help = Command::new(example::valkeybloom_http())
        .arg("--help")
        .output();
    let help = String::from_utf8(help.expect("the program runs").stdout).expect("a text");
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let options = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--"));
    let options = options.filter_map(|line| line.split(' ').next());
    let options: Vec<&str> = options.filter(|name| *name != "config").collect();
    assert!(options.len() > 10, "{help}");
    for name in &options {
        let line = example
            .lines()
            .find(|line| line.starts_with(&format!("# {name} = ")));
        let line = line.unwrap_or_else(|| panic!("the example lacks {name}"));
        let value = line.split(" = ").nth(1).expect("a value").trim_matches('"');
        let is_default = words.contains(&format!("[default: {value}]"));
        assert!(
            is_default || value.starts_with("/etc/valkeybloom/"),
            "{line}"
        );
    }
    // Without its comments, it is a valid file.
    let words = example.lines().filter_map(|line| line.strip_prefix("# "));
    let words: Vec<&str> = words
        .filter(|line| options.contains(&line.split(' ').next().unwrap_or_default()))
        .filter(|line| line.contains(" = "))
        .collect();
    assert_eq!(words.len(), options.len());
    let why = refusal(&server, &(words.join("\n") + "\nnone = 1"));
    assert_eq!(why, "none: there is no such option");
}

#[test]
fn a_token_is_required_everywhere_but_for_health() {
    let server = Server::start();
    let path = server.dir().join("token");
    fs::write(&path, "s3cr.et-~token\n").expect("the folder can be written to");
    let path = path.to_str().expect("ASCII");
    let by_file = Service::start(&server, &["--token-file", path]);
    let mut command = command(&server, &[]);
    command.env("VALKEYBLOOM_HTTP_TOKEN", "s3cr.et-~token");
    let by_environment = Service::run(command);
    for service in [by_file, by_environment] {
        let sent = |path: &str, token: &str| {
            let request = service.agent.get(format!("{}{path}", service.url));
            let response = request.header("Authorization", token).call();
            response.expect("the service answers")
        };
        for (token, status) in [
            ("Bearer s3cr.et-~token", 200),
            ("bearer s3cr.et-~token", 200),
            ("Bearer s3cr.et-~tokeN", 401),
            ("Bearer s3cr.et-~toke", 401),
            ("Bearer s3cr.et-~tokens", 401),
            ("Bearer ", 401),
            ("Bearer", 401),
            ("s3cr.et-~token", 401),
            ("Basic s3cr.et-~token", 401),
            ("", 401),
        ] {
            for path in ["/?key=a", "/metrics"] {
                let response = sent(path, token);
                assert_eq!(response.status(), status, "{path} {token}");
                let challenge = response.headers().get("WWW-Authenticate");
                let challenge = challenge.map(|value| value.to_str().expect("ASCII"));
                assert_eq!(challenge, (status == 401).then_some("Bearer"));
            }
        }
        assert_eq!(service.get("key=a").0, 401);
        assert_eq!(service.post("key=a", b"").0, 401);
        // Without a token, no path is revealed.
        assert_eq!(service.text("/none").0, 401);
        assert_eq!(
            service.text("/health"),
            (StatusCode::OK, json!({ "status": "ok" }).to_string())
        );
    }
    assert_eq!(server.client().cmd("BF.CARD mneme").as_int(), 0);
}

#[test]
fn the_token_of_the_command_line_is_used_if_it_is_one() {
    let server = Server::start();
    let path = server.dir().join("token");
    fs::write(&path, "s3cr.et-~token\n").expect("the folder can be written to");
    let path = path.to_str().expect("ASCII");
    // The environment overrides the file of options, and the command line both.
    let file = server.dir().join("http.toml");
    fs::write(&file, format!("token-file = {path:?}")).expect("the folder can be written to");
    let config = ["--config", file.to_str().expect("ASCII")];
    for (words, status) in [(&[][..], 401), (&["--token-file", path], 200)] {
        let mut command = super::command(&server, &[&config, words].concat());
        command.env("VALKEYBLOOM_HTTP_TOKEN", "another");
        let service = Service::run(command);
        let request = service.agent.get(format!("{}/?key=a", service.url));
        let response = request
            .header("Authorization", "Bearer s3cr.et-~token")
            .call();
        assert_eq!(response.expect("the service answers").status(), status);
    }
    for token in ["", "\n", "two words", "ä"] {
        fs::write(path, token).expect("the folder can be written to");
        let output = super::command(&server, &["--token-file", path]).output();
        let output = output.expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{token}");
        let said = String::from_utf8_lossy(&output.stderr);
        let start = format!("valkeybloom-http: {path}: the token has to be");
        assert!(said.starts_with(&start), "{said}");
    }
    // No message shows the value of a variable.
    for (name, why) in [
        ("TOKEN", ": the token has to be"),
        ("TOKEN", " is not UTF-8"),
        ("SERVER", " is not UTF-8"),
    ] {
        let end: &[u8] = if why.ends_with("UTF-8") {
            b"\xff"
        } else {
            b" "
        };
        let name = format!("VALKEYBLOOM_HTTP_{name}");
        let mut command = super::command(&server, &[]);
        command.env(&name, OsStr::from_bytes(&[b"s3cret", end].concat()));
        let output = command.output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{name}{why}");
        let said = String::from_utf8_lossy(&output.stderr);
        let start = format!("valkeybloom-http: {name}{why}");
        assert!(
            said.starts_with(&start) && !said.contains("s3cret"),
            "{said}"
        );
    }
}

/// Messages name the address that they are about, without a password, and a line of the log has its time.
#[test]
fn messages_name_addresses_and_times() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    let taken = command(&server, &["--listen", service.address()]).output();
    let taken = taken.expect("the program runs");
    let said = String::from_utf8_lossy(&taken.stderr);
    let start = format!(
        "valkeybloom-http: {}: Address already in use",
        service.address()
    );
    assert!(
        taken.status.code() == Some(1) && said.starts_with(&start),
        "{said}"
    );

    let mut away = at("redis://user:secret@127.0.0.1:1/", &[]);
    away.stderr(Stdio::piped());
    let mut service = Service::run(away);
    let (status, answer) = service.get("key=a");
    assert_eq!(status, 503);
    let why = answer["error"].as_str().expect("a text");
    assert!(why.starts_with("no answer from the server: "), "{why}");
    let log = service.child.stderr.take().expect("it is a pipe");
    let line = first_line(log);
    let (time, text) = line.split_once(' ').expect("two words");
    assert!(time.len() == 20 && time.ends_with('Z'), "{line}");
    assert!(
        text.starts_with("could not talk to 127.0.0.1:1: "),
        "{line}"
    );
    assert!(!line.contains("secret"), "{line}");
}

/// A server that accepts, and says nothing.
#[test]
fn the_patience_with_the_server_is_an_option() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("redis://{}/", silent.local_addr().expect("it is bound"));
    let service = Service::run(at(&address, &["--server-timeout", "0.05"]));
    let (status, answer) = service.get("key=a");
    assert_eq!(status, 503);
    let why = answer["error"].as_str().expect("a text");
    assert!(why.starts_with("no answer from the server: "), "{why}");
}

#[test]
fn a_man_page_and_completions_are_written() {
    let server = Server::start();
    let folder = server.dir().join("pages");
    let mut command = Command::new(example::valkeybloom_http());
    let written = command.arg("--pages").arg(&folder).status();
    assert!(written.expect("the program runs").success());
    let page = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
    assert!(page("valkeybloom-http.1").contains("server\\-timeout"));
    assert!(page("_valkeybloom-http").starts_with("#compdef valkeybloom-http"));
    assert!(page("valkeybloom-http.fish").contains("complete -c valkeybloom-http"));
    assert!(page("valkeybloom-http.bash").contains("--server-timeout"));
}
