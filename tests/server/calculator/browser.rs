//! The page in a browser without a window: a script runs in a copy of the page, and replaces it by what it returns.

use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::Value;

use crate::harness::folder;

/// Comes before the page.
const BEFORE: &str = "<script>const faults = []; addEventListener('error', (event) => faults.push(event.message));</script>";

/// Comes after the page; the test's script replaces `BODY`, and the page `SOURCE`. `open` sets the fields as a link with
/// this hash does, and `shown` returns the rows as the page shows them.
const AFTER: &str = r#"<pre id="returned" hidden></pre><script>
const source = SOURCE;
const open = (hash) => { history.replaceState(null, '', `#${hash}`); restore(); };
const shown = () => [...document.querySelectorAll('#rows tr')]
  .map((row) => [...row.children].map((cell) => cell.textContent))
  .concat([['command', `${byId('command').textContent}   ${byId('others').textContent}`.trimEnd()]]);
const run = async () => {
BODY
};
run().catch((error) => { faults.push(String(error)); }).then((returned) => {
  const text = JSON.stringify([faults, returned]);
  const bytes = [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, '0'));
  document.documentElement.textContent = `returned:${bytes.join('')}:`;
});
</script>"#;

/// Returns what a script, the body of an `async` function, returns in the page. Any error in the page is a failure.
#[track_caller]
pub fn in_page(script: &str) -> Value {
    let folder = folder();
    let page = super::file("docs/calculator.html");
    let source = Value::from(&*page).to_string().replace('<', "\\u003c");
    let page = page.replacen("<body>", &format!("<body>{BEFORE}"), 1);
    assert!(page.contains(BEFORE), "the page has a body");
    let after = AFTER.replace("BODY", script).replace("SOURCE", &source);
    let path = folder.path().join("page.html");
    fs::write(&path, page + &after).expect("the folder can be written");

    let program = env::var_os("BROWSER").unwrap_or_else(|| "chromium".into());
    let output = Command::new(&program)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ])
        .args(["--no-first-run", "--disable-background-networking"])
        // The virtual clock passes only while the page waits for it, so the script ends however slow the machine is.
        .args(["--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(format!("file://{}", path.display()))
        .stderr(Stdio::null())
        .output()
        .unwrap_or_else(|e| {
            panic!(
                "{}: {e}: apt-get install chromium, or set BROWSER",
                program.display()
            )
        });
    let printed = String::from_utf8_lossy(&output.stdout);
    let digits = printed
        .split_once("returned:")
        .and_then(|(_, rest)| rest.split_once(':'));
    let (digits, _) = digits.unwrap_or_else(|| panic!("the script did not end: {printed}"));
    let bytes: Vec<u8> = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits"))
        .collect();
    let mut returned: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(returned[0], Value::Array(Vec::new()), "errors of the page");
    returned[1].take()
}
