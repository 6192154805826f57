//! A browser without a window, driven by the `DevTools` protocol over two named pipes.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process, thread};

use serde_json::{Value, json};

/// A browser with one page.
pub struct Browser {
    child: Child,
    folder: PathBuf,
    to: File,
    from: BufReader<File>,
    session: Option<String>,
    last: u64,
    /// Events that came in before the replies that were awaited.
    events: VecDeque<Value>,
}

impl Browser {
    /// Starts `$BROWSER`, or Debian's Chromium, and opens an empty page.
    pub fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("valkeybloom-browser-{}-{next}", process::id()));
        fs::create_dir_all(&folder).expect("the folder can be made");
        let program = env::var_os("BROWSER").unwrap_or_else(|| "chromium".into());
        let [to, from] = ["to", "from"].map(|name| folder.join(name));
        let made = Command::new("mkfifo").args([&to, &from]).status();
        assert!(
            made.is_ok_and(|status| status.success()),
            "named pipes can be made"
        );
        // The browser reads file descriptor 3 and writes 4, which only a shell can open for it without unsafe code.
        // Without a browser the requests come back, which is reported instead of waited for.
        let script = r#"command -v "$0" >/dev/null || exec cat <to >from
            exec "$0" "$@" 3<to 4>from"#;
        let options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ];
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(&program)
            .args(options)
            .args([
                "--no-first-run",
                "--disable-background-networking",
                "--remote-debugging-pipe",
            ])
            .arg(format!(
                "--user-data-dir={}",
                folder.join("profile").display()
            ))
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is a shell");
        // Each side waits for the other one to open a pipe, in this order.
        let to = OpenOptions::new().write(true).open(to).expect("a pipe");
        let from = File::open(from).expect("a pipe");
        let mut browser = Self {
            child,
            folder,
            to,
            from: BufReader::new(from),
            session: None,
            last: 0,
            events: VecDeque::new(),
        };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attached);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Network.enable", "Runtime.enable"] {
            browser.call(domain, &json!({}));
        }
        browser
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.from
            .read_until(0, &mut message)
            .expect("the browser writes");
        message.pop();
        serde_json::from_slice(&message).unwrap_or_else(|_| {
            panic!("the browser is missing or has ended: apt-get install chromium, or set BROWSER")
        })
    }

    /// Calls a method of the protocol, and returns its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to
            .write_all(format!("{message}\0").as_bytes())
            .expect("the browser reads");
        loop {
            let mut reply = self.receive();
            if reply["id"] == self.last {
                assert!(reply["error"].is_null(), "{method}: {reply}");
                assert!(
                    reply["method"].is_null(),
                    "the browser is missing: apt-get install chromium, or set BROWSER"
                );
                return reply["result"].take();
            }
            self.events.push_back(reply);
        }
    }

    /// Opens an address, and awaits that its page has loaded.
    pub fn open(&mut self, address: &str) {
        // An address that differs in its hash alone would not load anew.
        for address in ["about:blank", address] {
            self.events
                .retain(|event| event["method"] != "Page.loadEventFired");
            self.call("Page.navigate", &json!({ "url": address }));
            while !self
                .events
                .iter()
                .any(|event| event["method"] == "Page.loadEventFired")
            {
                let event = self.receive();
                self.events.push_back(event);
            }
        }
    }

    /// Returns the value of an expression.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut found = self.call("Runtime.evaluate", &params);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].take()
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let params =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", &params);
        }
    }

    /// Types a text where the focus is.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Sets the width of the page in pixels.
    pub fn set_width(&mut self, width: u32) {
        let params =
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", &params);
    }

    /// Returns the addresses that were requested so far, but for empty pages and those in the address itself.
    pub fn requested(&self) -> Vec<String> {
        let events = self.events.iter();
        let events = events.filter(|event| event["method"] == "Network.requestWillBeSent");
        let addresses = events.map(|event| {
            let address = event["params"]["request"]["url"].as_str();
            address.unwrap_or_default().to_owned()
        });
        let is_outside =
            |address: &String| !["data:", "about:"].iter().any(|s| address.starts_with(s));
        addresses.filter(is_outside).collect()
    }

    /// Returns the errors that the page has reported so far.
    pub fn errors(&self) -> Vec<&Value> {
        let events = self.events.iter();
        events
            .filter(|event| event["method"] == "Runtime.exceptionThrown")
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A browser that closes itself ends all of its processes, so none of them writes to the folder any more.
        let close = json!({ "id": 0, "method": "Browser.close" });
        let is_asked = self.to.write_all(format!("{close}\0").as_bytes());
        if is_asked.is_ok() && !thread::panicking() {
            let _ = self.from.read_to_end(&mut Vec::new());
        } else {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
