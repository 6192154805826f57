//! Projects of Docker Compose, as Compose itself resolves them, with processes in place of containers.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{MODULE, files, root};
use crate::harness::{docker_compose, folder, free_port, given, supported_servers, wait_until};
use crate::pages;

const PASSWORD: &str = "secret";

/// Returns what Compose says of a file: JSON in which references, variables and short forms are resolved.
pub fn resolved(file: &Path, password: Option<&str>) -> Result<Value, String> {
    let mut command = Command::new(docker_compose());
    command.arg("-f").arg(file);
    command.args(["--env-file", "/dev/null", "config", "--format", "json"]);
    command.env_remove("VALKEY_PASSWORD");
    if let Some(password) = password {
        command.env("VALKEY_PASSWORD", password);
    }
    let output = command.output().expect("Docker Compose is installed");
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Returns the configuration file of the release's image.
fn configuration_of_the_image() -> String {
    let tools = fs::read_dir(root().join("tools")).expect("there is a folder");
    let texts = tools.map(|entry| {
        let path = entry.expect("it can be read").path();
        fs::read_to_string(path).unwrap_or_default()
    });
    let mut found = texts.filter_map(|text| {
        let (_, rest) = text.split_once("/etc/valkey/valkey.conf\" <<'CONF'\n")?;
        let (text, _) = rest.split_once("\nCONF\n")?;
        Some(text.to_owned())
    });
    found.next().expect("a script in tools/ writes it")
}

/// Returns the server of the version that the files name, whichever others the tests run on.
fn server() -> PathBuf {
    supported_servers().swap_remove(0)
}

/// A file of Compose. Its services listen on ports of this machine that are free.
pub struct Project {
    file: Value,
    ports: HashMap<String, u16>,
    folder: TempDir,
}

impl Project {
    #[track_caller]
    pub fn new(name: &str) -> Self {
        let path = root().join(format!("examples/compose/{name}.yaml"));
        let file = resolved(&path, Some(PASSWORD)).unwrap_or_else(|error| panic!("{error}"));
        let services = file["services"].as_object().expect("services");
        let ports = services.keys().map(|name| (name.clone(), free_port()));
        let ports = ports.collect();
        let folder = folder();
        let sentinel = folder.path().join("valkey-sentinel");
        symlink(server(), sentinel).expect("the folder can be written to");
        Self {
            file,
            ports,
            folder,
        }
    }

    /// Replaces the paths of a container, and the addresses of other ones.
    fn local(&self, service: &str, text: &str) -> String {
        let own = self.folder.path().join(service);
        let mut text = text
            .replace("$$", "$")
            .replace("/data", &format!("{}/data", own.display()))
            .replace("/etc/", &format!("{}/etc/", own.display()));
        for (name, port) in &self.ports {
            let definition = &self.file["services"][name];
            let address = &definition["networks"]["default"]["ipv4_address"];
            let host = address.as_str().unwrap_or(name);
            text = text
                .replace(&format!("-h {host} "), &format!("-p {port} "))
                .replace(&format!("{host}:6379"), &format!("127.0.0.1:{port}"))
                .replace(&format!("{host} 6379"), &format!("localhost {port}"));
        }
        let module = given("VALKEYBLOOM_SO");
        text.replace(MODULE, module.to_str().expect("a path in Unicode"))
    }

    fn command(&self, service: &str, words: &[String]) -> Command {
        let definition = &self.file["services"][service];
        let (program, rest) = words.split_first().expect("a program");
        let server = server();
        let programs = server.parent().expect("a folder").display();
        let path = std::env::var("PATH").expect("a path");
        let mut command = Command::new(program);
        command
            .args(rest)
            .env("HOSTNAME", "localhost")
            .env(
                "PATH",
                format!("{}:{programs}:{path}", self.folder.path().display()),
            )
            .current_dir(self.folder.path().join(service))
            .stdin(Stdio::null());
        let environment = definition["environment"].as_object().expect("variables");
        for (name, value) in environment {
            command.env(name, value.as_str().expect("a text"));
        }
        command
    }

    /// Writes the files that a service has when it starts, and returns its command.
    fn prepared(&self, service: &str) -> Command {
        let definition = &self.file["services"][service];
        let own = self.folder.path().join(service);
        fs::create_dir_all(own.join("data")).expect("the folder can be written to");
        let write = |target: &str, text: &str| {
            let path = own.join(target.trim_start_matches('/'));
            fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
            fs::write(path, self.local(service, text)).expect("it can be written");
        };
        let mut words = strings(&definition["command"]);
        let image = definition["image"].as_str().expect("an image");
        if image.starts_with("valkeybloom:") {
            write("/etc/valkey/valkey.conf", &configuration_of_the_image());
            let entrypoint = ["valkey-server", "/etc/valkey/valkey.conf"];
            words.splice(0..0, entrypoint.map(str::to_owned));
        }
        // Where it listens, and no wait for further replicas before the first synchronization.
        let mut added = format!("port {}\nbind 127.0.0.1 -::1\n", self.ports[service]);
        if !service.starts_with("sentinel") {
            added += "repl-diskless-sync-delay 0\n";
        }
        for config in definition["configs"].as_array().unwrap_or(&vec![]) {
            let source = config["source"].as_str().expect("a name");
            let text = self.file["configs"][source]["content"].as_str();
            let text = format!("{}\n{added}", text.expect("a text"));
            write(config["target"].as_str().expect("a path"), &text);
            added.clear();
        }
        let words: Vec<String> = words.iter().map(|word| self.local(service, word)).collect();
        self.command(service, &words)
    }

    /// Starts a service, and awaits that its health check passes.
    #[track_caller]
    pub fn start<'p>(&'p self, service: &'p str) -> Container<'p> {
        let mut container = Container {
            project: self,
            service,
            child: self.spawned(service),
        };
        wait_until("the service is healthy", || {
            let ended = container.child.try_wait().expect("the process is ours");
            assert!(ended.is_none(), "{}", container.log());
            container.is_healthy()
        });
        container
    }

    fn spawned(&self, service: &str) -> Child {
        let mut command = self.prepared(service);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log(service));
        let log = log.expect("the folder can be written to");
        command
            .stdout(log.try_clone().expect("a file handle can be copied"))
            .stderr(log);
        command.spawn().expect("the program is installed")
    }

    fn log(&self, service: &str) -> PathBuf {
        self.folder.path().join(service).join("log")
    }

    /// Runs a service that ends by itself.
    pub fn run(&self, service: &str) -> Output {
        let mut command = self.prepared(service);
        command.output().expect("the program is installed")
    }

    /// Returns the service that listens on this port.
    #[track_caller]
    pub fn at(&self, port: &str) -> &str {
        let mut services = self.ports.iter();
        let found = services.find(|(_, own)| own.to_string() == port);
        found.expect("a port of the project").0
    }
}

fn strings(words: &Value) -> Vec<String> {
    let words = words.as_array().map_or(&[][..], Vec::as_slice);
    let words = words.iter().map(|word| word.as_str().expect("a text"));
    words.map(str::to_owned).collect()
}

/// A running service. Dropping it kills the process.
pub struct Container<'p> {
    project: &'p Project,
    pub service: &'p str,
    child: Child,
}

impl Container<'_> {
    /// Runs `valkey-cli` in the container, and returns its output.
    pub fn cli(&self, words: &str) -> String {
        let port = self.project.ports[self.service];
        let words = format!("valkey-cli -p {port} {words}");
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let run = self.project.command(self.service, &words).output();
        let output = run.expect("valkey-cli is installed").stdout;
        String::from_utf8(output).expect("a text").trim().to_owned()
    }

    /// Runs the service's health check, at the port that it has here.
    fn is_healthy(&self) -> bool {
        let check = &self.project.file["services"][self.service]["healthcheck"];
        let mut words = strings(&check["test"]);
        assert_eq!(words.remove(0), "CMD", "a program");
        let port = self.project.ports[self.service].to_string();
        let last = words.len() - 1;
        words.splice(last..last, ["-p".to_owned(), port]);
        let run = self.project.command(self.service, &words).output();
        run.expect("valkey-cli is installed").status.success()
    }

    /// Ends the service as Docker does, and awaits its end.
    #[track_caller]
    pub fn stop(mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("there is kill").success());
        let status = self.child.wait().expect("the process is ours");
        assert!(status.success(), "{}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.project.log(self.service)).expect("a log")
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the log of {}:\n{}", self.service, self.log());
        }
    }
}

#[test]
fn files_are_valid() {
    let mut names = vec![];
    for path in files("compose") {
        let file = resolved(&path, Some(PASSWORD)).unwrap_or_else(|error| panic!("{error}"));
        let without = resolved(&path, None).expect_err("there is no password");
        assert!(without.contains("set it in the environment"), "{without}");
        let mut volumes = HashSet::new();
        for (name, service) in file["services"].as_object().expect("services") {
            let build = service["build"]["dockerfile_inline"].as_str();
            let image = service["image"].as_str().expect("an image");
            match build {
                None => super::has_this_version(image),
                Some(build) => {
                    copies_the_module(build);
                    // Another version of the module makes another image, so that Compose builds it.
                    let suffix = concat!("-", env!("CARGO_PKG_VERSION"));
                    assert!(image.ends_with(suffix), "{image}");
                }
            }
            for port in service["ports"].as_array().unwrap_or(&vec![]) {
                assert_eq!(port["host_ip"], "127.0.0.1", "{name}");
            }
            if name != "create" {
                assert_eq!(service["restart"], "unless-stopped", "{name}");
                let volume = &service["volumes"][0];
                assert_eq!(volume["target"], "/data", "{name}");
                assert!(volumes.insert(volume["source"].to_string()), "{name}");
            }
        }
        names.push(path.file_stem().expect("a name").display().to_string());
    }
    assert_eq!(names, ["cluster", "sentinel", "single"]);
}

/// Requires a Dockerfile that copies the module of this version to where the configurations load it from.
#[track_caller]
fn copies_the_module(dockerfile: &str) {
    let mut lines = dockerfile.lines();
    let mut line = || lines.next().expect("two lines");
    let (from, copy) = (line(), line());
    assert!(from.starts_with("FROM valkey/valkey:"), "{from}");
    let words: Vec<&str> = copy.split_whitespace().collect();
    let ["COPY", image, "/valkeybloom.so", MODULE] = words[..] else {
        panic!("{copy}");
    };
    let image = image
        .strip_prefix("--from=valkeybloom-module")
        .expect("an image");
    super::has_this_version(image);
}

#[test]
fn the_page_copies_the_module() {
    let section = "The module in another image";
    let dockerfile = pages::block("docs/container.md", section, "dockerfile");
    copies_the_module(&dockerfile);
    assert!(dockerfile.contains(&format!("\"--loadmodule\", \"{MODULE}\"")));
}

#[test]
fn a_wrong_key_is_refused() {
    let folder = folder();
    let path = folder.path().join("wrong.yaml");
    let text = fs::read_to_string(root().join("examples/compose/single.yaml")).expect("a file");
    fs::write(&path, text.replace("healthcheck:", "healthchecks:")).expect("it can be written");
    let error = resolved(&path, Some(PASSWORD)).expect_err("there is no such key");
    assert!(error.contains("healthchecks"), "{error}");
}
