//! What the module is made of besides this project's crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Table, output};

/// The most crates of others in the module, and the most of them with unsafe code.
const MOST: (usize, usize) = (30, 24);

/// Licences under which anybody may use a binary.
const PERMISSIVE: [&str; 3] = ["MIT", "Apache-2.0", "BSD-3-Clause"];

/// The project's crates in the module.
const OURS: [&str; 3] = [
    "valkeybloom",
    "valkeybloom-protocol",
    "valkeybloom-sketches",
];

pub(crate) fn run(table: &mut Table) {
    let page = fs::read_to_string("ARCHITECTURE.md").expect("it runs in the repository");
    let direct = crates("normal", &["--depth", "1", "--no-dedupe"]);
    let names: Vec<_> = direct.iter().map(|(name, _)| format!("`{name}`")).collect();
    table.claim(
        "ARCHITECTURE.md says what each direct dependency is for",
        &format!("{}: {}", names.len(), names.join(", ")),
        names.iter().all(|name| page.contains(name)),
    );

    // Macros run while the module is compiled, and are not in it.
    let all = crates("normal,no-proc-macro", &[]);
    let (mut with_unsafe, mut restricted) = (0, Vec::new());
    let mut owners: BTreeMap<String, (Vec<String>, BTreeSet<String>)> = BTreeMap::new();
    let packages = packages();
    for (name, version) in &all {
        let is_it = |package: &&Value| package["name"] == **name && package["version"] == **version;
        let package = packages.iter().find(is_it).expect("cargo lists it");
        let text = |field: &str| package[field].as_str().unwrap_or_default();
        let licence = text("license").replace('/', " OR ");
        let mut choices = licence.split(" OR ");
        if !choices.any(|choice| PERMISSIVE.contains(&choice)) {
            restricted.push(format!(", {name}: {licence}"));
        }
        let folder = Path::new(text("manifest_path")).parent().expect("a folder");
        let lines = unsafe_lines(&folder.join("src"));
        with_unsafe += usize::from(lines > 0);
        // https://github.com/owner/repository
        let place: Vec<_> = text("repository").split('/').skip(2).take(2).collect();
        let owned = owners.entry(place.join("/")).or_default();
        owned.0.push(format!("{name} {version} ({lines})"));
        owned.1.insert(licence);
    }
    let (most, most_unsafe) = MOST;
    table.claim(
        &format!(
            "At most {most} crates of others are in the module, {most_unsafe} with unsafe code"
        ),
        &format!("{}, {with_unsafe} with unsafe code", all.len()),
        all.len() <= most && with_unsafe <= most_unsafe,
    );
    table.claim(
        &format!(
            "Each of them may be used under one of {}",
            PERMISSIVE.join(", ")
        ),
        &format!("{} may not{}", restricted.len(), restricted.concat()),
        restricted.is_empty(),
    );
    let rows = owners.into_iter().map(|(owner, (crates, licences))| {
        [
            owner,
            crates.join(", "),
            Vec::from_iter(licences).join("; "),
        ]
    });
    let columns = ["maintained at", "crates (lines with `unsafe`)", "licences"];
    table.details("Dependencies", columns, &rows.collect::<Vec<_>>());
}

/// Returns the names and versions of the crates of others on which the project's crates in the module depend.
fn crates(edges: &str, options: &[&str]) -> BTreeSet<(String, String)> {
    let mut args = vec![
        "tree", "--locked", "--prefix", "none", "--format", "{p}", "-e", edges,
    ];
    args.extend(OURS.iter().flat_map(|name| ["-p", name]));
    args.extend(options);
    let listed = output("cargo", &args);
    let pairs = listed.lines().filter_map(|line| line.split_once(" v"));
    let pairs = pairs.map(|(name, rest)| (name, rest.split(' ').next().expect("a version")));
    let of_others = pairs.filter(|(name, _)| !OURS.contains(name));
    of_others
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect()
}

/// Returns what cargo knows about the packages for this machine.
fn packages() -> Vec<Value> {
    let compiler = output("rustc", &["-vV"]);
    let host = compiler
        .lines()
        .find_map(|line| line.strip_prefix("host: "));
    let mut args = vec!["metadata", "--locked", "--format-version", "1"];
    args.extend(["--filter-platform", host.expect("a platform")]);
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
        code.filter(|line| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "unsafe")
        })
        .count()
    });
    counts.sum()
}
