//! The golden vectors, read in several languages by the checks that they have.

use std::process::{Command, Output};

use crate::Table;

/// A language, a command of the shell that fails if the language is not installed, and one that checks the vectors. No
/// browser is needed, though the script for JavaScript asks for one.
const LANGUAGES: [[&str; 3]; 4] = [
    [
        "Rust",
        "true",
        "cargo test --release --locked -p valkeybloom-bindings --test vectors",
    ],
    [
        "C",
        "command -v cc",
        "tools/c.sh vectors \"$EVIDENCE_DIR/c\"",
    ],
    [
        "Python",
        "python3 -c 'import ensurepip, venv'",
        "tools/python.sh vectors",
    ],
    [
        "JavaScript",
        "command -v node npm && tools/js.sh target",
        "BROWSER=node tools/js.sh test \"$VALKEY_SERVER\" \"$VALKEYBLOOM_SO\" tests/vectors.test.js",
    ],
];

pub(crate) fn run(table: &mut Table) {
    for [language, is_installed, check] in LANGUAGES {
        let claim =
            format!("{language} reads the golden vectors of version 3.0 and writes the same bytes");
        if !shell(is_installed).status.success() {
            table.not_run(&claim, &format!("it takes what `{is_installed}` looks for"));
            continue;
        }
        let checked = shell(check);
        let text = String::from_utf8_lossy(&checked.stdout);
        // The last line that sums up what passed.
        let words = [" passed", " pass ", "the bytes are"];
        let mut lines = text.lines().rev();
        let passed = lines.find(|line| words.iter().any(|word| line.contains(word)));
        if !checked.status.success() {
            eprintln!("{text}{}", String::from_utf8_lossy(&checked.stderr));
        }
        let passed = passed.and_then(|line| line.trim_matches(['#', ' ']).split(';').next());
        table.claim(&claim, passed.unwrap_or_default(), checked.status.success());
    }
}

fn shell(command: &str) -> Output {
    let output = Command::new("sh").args(["-c", command]).output();
    output.expect("there is a shell")
}
