//! The floors of the source, as ARCHITECTURE.md lists them: each file uses only its own floor and lower ones, without
//! a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files by their path under `src`, and their text.
type Sources = BTreeMap<String, String>;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Sources {
    fn read(folder: &Path, under: &Path, into: &mut Sources) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, under, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(under).unwrap().to_str().unwrap();
                into.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut sources = Sources::new();
    let src = root().join("src");
    read(&src, &src, &mut sources);
    sources
}

/// Returns the rooms of each floor, the topmost first: the words in backticks in the second column of the first table
/// under the heading "Floors".
fn floors(page: &str) -> Vec<Vec<String>> {
    let (_, section) = page.split_once("\n## Floors\n").expect("a heading");
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    // Behind the heading's row and the line under it.
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let rooms = row.split('|').nth(2).expect("a second column");
        rooms
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    })
    .collect()
}

/// Returns the floor of a file: that of the longest room that the file is, or lies in.
fn floor_of(file: &str, floors: &[Vec<String>]) -> Option<usize> {
    let rooms = floors.iter().enumerate();
    let rooms = rooms.flat_map(|(floor, rooms)| rooms.iter().map(move |room| (room, floor)));
    rooms
        .filter(|(room, _)| file == room.as_str() || room.ends_with('/') && file.starts_with(*room))
        .max_by_key(|(room, _)| room.len())
        .map(|(_, floor)| floor)
}

/// The code without comments and without what is compiled for tests alone.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
    let lines = text.lines().map(|line| match line.find("//") {
        Some(start) => &line[..start],
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths that a tree of imports names: `a::{b, c::d}` names `a::b` and `a::c::d`.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap();
        return vec![
            path.split("::")
                .map(|part| part.trim().to_owned())
                .collect(),
        ];
    };
    let prefix: Vec<String> = prefix
        .split("::")
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    let inner = &rest[..rest.rfind('}').expect("a closing brace")];
    let (mut depth, mut start, mut all) = (0, 0, Vec::new());
    let mut pieces = Vec::new();
    for (index, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                pieces.push(&inner[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    pieces.push(&inner[start..]);
    for piece in pieces.into_iter().filter(|piece| !piece.trim().is_empty()) {
        for path in paths(piece) {
            all.push(prefix.iter().cloned().chain(path).collect());
        }
    }
    all
}

/// The module that a file is.
fn module_of(file: &str) -> Vec<String> {
    let path = file.strip_suffix(".rs").unwrap();
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    if ["mod", "lib"].contains(&module.last().unwrap().as_str()) {
        module.pop();
    }
    module
}

/// The file that a path leads to, of a module: the one of the longest part of the path that is a module.
fn file_of(path: &[String], sources: &Sources) -> Option<String> {
    (1..=path.len()).rev().find_map(|length| {
        let path = path[..length].join("/");
        let files = [format!("{path}.rs"), format!("{path}/mod.rs")];
        files.into_iter().find(|file| sources.contains_key(file))
    })
}

/// The other files that a file names: in `use` lines, in paths that begin with `crate::`, and as its modules.
fn uses(file: &str, sources: &Sources) -> BTreeSet<String> {
    let code = code(&sources[file]);
    let own = module_of(file);
    let is_folder = file.ends_with("mod.rs") || file == "lib.rs";
    let mut named: Vec<Vec<String>> = Vec::new();
    for (start, _) in code.match_indices("use ") {
        let line = &code[code[..start].rfind('\n').map_or(0, |end| end + 1)..start];
        // Imports of the file itself begin a line, `pub` or not.
        if !line.is_empty() && !line.starts_with("pub") {
            continue;
        }
        let tree = &code[start + 4..];
        named.extend(paths(&tree[..tree.find(';').expect("an end")]));
    }
    for line in code.lines() {
        let module = line.trim_start_matches("pub ").strip_prefix("mod ");
        if let Some(name) = module.and_then(|rest| rest.strip_suffix(';')) {
            named.push(vec![name.to_owned()]);
        }
    }
    for (start, _) in code.match_indices("crate::") {
        // A macro's paths are those of who uses it.
        if code[..start].ends_with('$') {
            continue;
        }
        let path = &code[start..];
        let end = path.find(|c: char| !c.is_alphanumeric() && c != ':' && c != '_');
        let path = path[..end.unwrap_or(path.len())].trim_end_matches(':');
        named.push(path.split("::").map(str::to_owned).collect());
    }
    let mut files = BTreeSet::new();
    for path in named {
        let absolute = match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let mut base = own.clone();
                base.truncate(own.len().saturating_sub(ups));
                base.into_iter().chain(path[ups..].to_vec()).collect()
            }
            // A module's own files, which its imports may name without a prefix.
            _ if is_folder => own.iter().cloned().chain(path).collect(),
            _ => continue,
        };
        files.extend(file_of(&absolute, sources).filter(|target| target != file));
    }
    files
}

/// All that is wrong with the floors; nothing, where they hold.
fn faults(page: &str, sources: &Sources) -> Vec<String> {
    let floors = floors(page);
    let mut faults = Vec::new();
    for room in floors.iter().flatten() {
        if !sources
            .keys()
            .any(|file| file == room || room.ends_with('/') && file.starts_with(room))
        {
            faults.push(format!("the page names {room}, which is not there"));
        }
    }
    let mut graph: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in sources.keys() {
        let Some(floor) = floor_of(file, &floors) else {
            faults.push(format!("the page does not name {file}"));
            continue;
        };
        let used = uses(file, sources);
        for target in &used {
            match floor_of(target, &floors) {
                Some(of_target) if of_target < floor => {
                    faults.push(format!("{file} uses {target}, which stands above it"));
                }
                _ => {}
            }
        }
        graph.insert(file, used);
    }
    // A file that uses none of the remaining files is in no circle.
    loop {
        let free: Vec<&str> = graph
            .iter()
            .filter(|(_, used)| {
                used.iter()
                    .all(|target| !graph.contains_key(target.as_str()))
            })
            .map(|(file, _)| *file)
            .collect();
        if free.is_empty() {
            break;
        }
        for file in free {
            graph.remove(file);
        }
    }
    if !graph.is_empty() {
        let files: Vec<&&str> = graph.keys().collect();
        faults.push(format!("in a circle, or used by one: {files:?}"));
    }
    faults
}

fn page() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

#[test]
fn each_file_uses_only_lower_floors() {
    let sources = sources();
    let faults = faults(&page(), &sources);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Imports are found at all.
    let arrows: usize = sources.keys().map(|file| uses(file, &sources).len()).sum();
    assert!(arrows > 2 * sources.len(), "{arrows} arrows");
}

/// Each fault is one that the test finds, in the real tree.
#[test]
fn planted_faults_are_found() {
    let plant = |file: &str, line: &str, fault: &str| {
        let mut sources = sources();
        let text = sources.get_mut(file).unwrap();
        let place = text.find("\nuse ").or_else(|| text.find("\n\n"));
        text.insert_str(place.expect("a beginning") + 1, line);
        let faults = faults(&page(), &sources);
        assert!(
            faults.iter().any(|found| found.contains(fault)),
            "{file}: {line}{faults:?}"
        );
    };
    let up = "which stands above it";
    for (file, line) in [
        (
            "bloom/filter/mod.rs",
            "use valkeybloom_sketches::bloom::stack::Stack;\n",
        ),
        (
            "bloom/hash/batch.rs",
            "use crate::bloom::{\n    number::{ln, exp as e},\n    law::Law,\n};\n",
        ),
        (
            "bloom/machine/words/mod.rs",
            "use super::super::hash::Probe;\n",
        ),
        (
            "bloom/law/step.rs",
            "pub(crate) use super::super::object::{Object};\n",
        ),
        (
            "bloom/object/mod.rs",
            "fn f(_: valkeybloom_sketches::bloom::wire::Dialect) {}\n",
        ),
        ("numerals.rs", "use crate::config;\n"),
    ] {
        plant(file, line, up);
    }
    let circle = "in a circle";
    for (file, line) in [
        ("bloom/object/ids.rs", "use super::timeline::Timeline;\n"),
        ("bloom/filter/bits.rs", "use super::Filter;\n"),
        ("reply.rs", "use crate::keyspace::Writer;\n"),
    ] {
        plant(file, line, circle);
    }
    let mut sources = sources();
    sources.insert("bloom/other.rs".to_owned(), String::new());
    sources.remove("numerals.rs");
    let faults = faults(&page(), &sources);
    assert!(faults.contains(&"the page does not name bloom/other.rs".to_owned()));
    assert!(faults.contains(&"the page names numerals.rs, which is not there".to_owned()));
}
