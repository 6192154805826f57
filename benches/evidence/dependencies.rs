//! What the module is made of besides this project's crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Table, output};

/// The most crates of others in the module, and the most of them with unsafe code.
const MOST: (usize, usize) = (31, 25);

/// The licences that permit any use of a binary that names its authors.
const PERMISSIVE: [&str; 4] = ["MIT", "Apache-2.0", "BSD-3-Clause", "Zlib"];

/// The project's crates in the module.
const OURS: [&str; 3] = [
    "valkeybloom",
    "valkeybloom-protocol",
    "valkeybloom-sketches",
];

/// The crates of one owner.
#[derive(Default)]
struct Owned {
    names: Vec<String>,
    unsafe_lines: usize,
    licences: BTreeSet<String>,
}

pub(crate) fn run(table: &mut Table) {
    let page = fs::read_to_string("ARCHITECTURE.md").expect("it runs in the repository");
    let direct = crates("normal,no-proc-macro", &["--depth", "1"]);
    let unexplained = direct
        .iter()
        .filter(|(name, _)| !page.contains(&format!("`{name}`")));
    let unexplained: Vec<_> = unexplained.map(|(name, _)| name.as_str()).collect();
    let names: Vec<_> = direct.iter().map(|(name, _)| name.as_str()).collect();
    table.claim(
        "ARCHITECTURE.md says what each direct dependency is for",
        &format!("{}: {}", names.len(), names.join(", ")),
        unexplained.is_empty(),
    );

    // Macros run while the module is compiled, and are not in it.
    let all = crates("normal,no-proc-macro", &[]);
    let (mut with_unsafe, mut restricted) = (0, Vec::new());
    let mut owners: BTreeMap<String, Owned> = BTreeMap::new();
    let packages = packages();
    for (name, version) in &all {
        let is_it = |package: &&Value| package["name"] == **name && package["version"] == **version;
        let package = packages.iter().find(is_it).expect("cargo lists it");
        let text = |field: &str| package[field].as_str().unwrap_or_default();
        let (licence, repository) = (text("license"), text("repository"));
        let mut choices = licence.split(" OR ").flat_map(|choice| choice.split('/'));
        if !choices.any(|choice| PERMISSIVE.contains(&choice)) {
            restricted.push(format!("{name}: {licence}"));
        }
        let folder = Path::new(text("manifest_path")).parent();
        let lines = unsafe_lines(&folder.expect("a folder").join("src"));
        with_unsafe += usize::from(lines > 0);
        // https://github.com/owner/repository
        let place: Vec<_> = repository.split('/').skip(2).take(2).collect();
        let owned = owners.entry(place.join("/")).or_default();
        owned.names.push(format!("{name} {version}"));
        owned.unsafe_lines += lines;
        owned.licences.insert(licence.replace('/', " OR "));
    }
    table.claim(
        &format!(
            "The module contains at most {} crates of others, {} of them with unsafe code",
            MOST.0, MOST.1
        ),
        &format!("{}, {with_unsafe} with unsafe code", all.len()),
        all.len() <= MOST.0 && with_unsafe <= MOST.1,
    );
    let permissive = format!(
        "All are under permissive licences: {}",
        PERMISSIVE.join(", ")
    );
    table.claim(&permissive, &restricted.join(", "), restricted.is_empty());

    let rows: Vec<_> = owners
        .into_iter()
        .map(|(owner, owned)| {
            [
                owner,
                owned.names.join(", "),
                owned.unsafe_lines.to_string(),
                Vec::from_iter(owned.licences).join("; "),
            ]
        })
        .collect();
    table.details(
        "Dependencies",
        ["maintained at", "crates", "lines with `unsafe`", "licences"],
        &rows,
    );
    let with_build = crates("normal,build", &[]).len();
    table.note(&format!(
        "{} more crates take part in the build: macros, build scripts and what they need. `./build.sh deny` checks \
         licences, sources and known vulnerabilities of all crates, and `./build.sh package` writes an SBOM.",
        with_build - all.len(),
    ));
}

/// Returns the names and versions of the crates of others that the project's crates in the module depend on.
fn crates(edges: &str, options: &[&str]) -> BTreeSet<(String, String)> {
    let mut args = vec![
        "tree", "--locked", "--prefix", "none", "--format", "{p}", "-e", edges,
    ];
    args.extend(OURS.iter().flat_map(|name| ["-p", name]));
    args.extend(options);
    let listed = output("cargo", &args);
    let lines = listed.lines().filter(|line| !line.is_empty());
    let pairs = lines.map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a name and a version");
        (word().to_owned(), word().trim_start_matches('v').to_owned())
    });
    pairs
        .filter(|(name, _)| !OURS.contains(&name.as_str()))
        .collect()
}

/// Returns what cargo knows about the packages for this machine.
fn packages() -> Vec<Value> {
    let compiler = output("rustc", &["-vV"]);
    let host = compiler
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("a platform");
    let args = [
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        host,
    ];
    let metadata: Value = serde_json::from_str(&output("cargo", &args)).expect("JSON");
    metadata["packages"].as_array().expect("a list").clone()
}

/// Counts the lines with the word `unsafe` outside of comments.
fn unsafe_lines(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let counts = entries.map(|entry| {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            return unsafe_lines(&path);
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let code = text
            .lines()
            .map(|line| line.split("//").next().expect("a part"));
        let is_word = |line: &&str| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "unsafe")
        };
        code.filter(is_word).count()
    });
    counts.sum()
}
