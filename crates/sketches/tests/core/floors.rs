//! What only reading can hold: within a crate no file uses another in a circle, and the rooms of `sketches` stand on the
//! floors that ARCHITECTURE.md lists. The compiler holds the order of the crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Ident, Item, UseTree};

/// Files by their path under a crate's `src`, and their text.
type Sources = BTreeMap<String, String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The crates, by their folders: the module, and all in `crates`.
fn crates() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let names = folders.map(|folder| folder.unwrap().file_name());
    let crates = names.map(|name| format!("crates/{}", name.to_str().unwrap()));
    crates.chain([String::new()]).collect()
}

fn sources(of: &str) -> Sources {
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
    let src = root().join(of).join("src");
    read(&src, &src, &mut sources);
    sources
}

/// The rooms of each floor of `sketches`, the topmost first: the words in backticks in the first column of the table
/// under the heading "Rooms of sketches".
fn floors() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = page
        .split_once("\n## Rooms of sketches\n")
        .expect("a heading");
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    // After the heading's row and the line under it.
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let rooms = row.split('|').nth(1).expect("a first column");
        let rooms = rooms.split('`').skip(1).step_by(2);
        rooms.map(str::to_owned).collect()
    })
    .collect()
}

/// The floor of a file: that of the longest room that it is, or lies in.
fn floor_of(file: &str, floors: &[Vec<String>]) -> Option<usize> {
    let rooms = floors.iter().enumerate();
    let rooms = rooms.flat_map(|(floor, rooms)| rooms.iter().map(move |room| (room, floor)));
    rooms
        .filter(|(room, _)| file == room.as_str() || room.ends_with('/') && file.starts_with(*room))
        .max_by_key(|(room, _)| room.len())
        .map(|(_, floor)| floor)
}

/// The text without what is compiled for tests alone.
fn shipped(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod ").next().unwrap()
}

/// The code without comments and without what is compiled for tests alone.
fn code(text: &str) -> String {
    let lines = shipped(text).lines().map(|line| match line.find("//") {
        Some(start) => &line[..start],
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Adds the paths that a tree of imports names: `a::{b, c::d}` names `a::b` and `a::c::d`.
fn add_paths(tree: &UseTree, prefix: &[String], to: &mut Vec<Vec<String>>) {
    let with = |name: &Ident| [prefix, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => add_paths(&path.tree, &with(&path.ident), to),
        UseTree::Name(name) => to.push(with(&name.ident)),
        UseTree::Rename(rename) => to.push(with(&rename.ident)),
        UseTree::Glob(_) => to.push(prefix.to_vec()),
        UseTree::Group(group) => {
            let trees = group.items.iter();
            trees.for_each(|tree| add_paths(tree, prefix, to));
        }
    }
}

/// The module that a file is.
fn module_of(file: &str) -> Vec<String> {
    let path = file.strip_suffix(".rs").unwrap();
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    if ["mod", "lib", "main"].contains(&module.last().unwrap().as_str()) {
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
    let is_folder = file.ends_with("mod.rs") || ["lib.rs", "main.rs"].contains(&file);
    let mut named: Vec<Vec<String>> = Vec::new();
    for item in &syn::parse_file(shipped(&sources[file]))
        .expect("Rust")
        .items
    {
        match item {
            Item::Use(item) => add_paths(&item.tree, &[], &mut named),
            Item::Mod(item) if item.content.is_none() => named.push(vec![item.ident.to_string()]),
            _ => {}
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

/// The files that use one another in a circle, or are used by such a file.
fn circle(sources: &Sources) -> Vec<&str> {
    let mut graph: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in sources.keys() {
        graph.insert(file, uses(file, sources));
    }
    // A file that uses none of those left is in no circle.
    loop {
        let free = |used: &BTreeSet<String>| !used.iter().any(|file| graph.contains_key(&**file));
        let free: Vec<&str> = graph
            .iter()
            .filter(|(_, used)| free(used))
            .map(|(file, _)| *file)
            .collect();
        if free.is_empty() {
            return graph.into_keys().collect();
        }
        graph.retain(|file, _| !free.contains(file));
    }
}

/// Each file of `sketches` that no room holds, and each that uses a file of a floor above its own.
fn faults(sources: &Sources) -> Vec<String> {
    let floors = floors();
    let mut faults = Vec::new();
    for file in sources.keys() {
        let Some(floor) = floor_of(file, &floors) else {
            faults.push(format!("the page does not name {file}"));
            continue;
        };
        for used in uses(file, sources) {
            if floor_of(&used, &floors).is_some_and(|of_used| of_used < floor) {
                faults.push(format!("{file} uses {used}, which stands above it"));
            }
        }
    }
    faults
}

#[test]
fn no_files_use_one_another_in_a_circle() {
    for of in crates() {
        let sources = sources(&of);
        assert_eq!(circle(&sources), [""; 0], "{of}");
        let arrows: usize = sources.keys().map(|file| uses(file, &sources).len()).sum();
        assert!(
            arrows + 1 >= sources.len(),
            "{of}: {arrows} imports are found"
        );
    }
}

#[test]
fn each_room_of_sketches_uses_those_below_it() {
    assert_eq!(faults(&sources("crates/sketches")), [""; 0]);
}

/// The modules of a crate that allow `unsafe` code. The workspace denies it elsewhere.
fn unsafe_modules(of: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for (file, text) in sources(of) {
        let folder = Path::new(of).join("src").join(file);
        let folder = folder.parent().unwrap().to_str().unwrap();
        let code = code(&text);
        for (start, _) in code.match_indices("allow(unsafe_code") {
            let allowed = code[start..].lines().nth(1).unwrap_or_default();
            let module = allowed.trim_start_matches("pub ").strip_prefix("mod ");
            modules.push(match module {
                Some(name) => format!("{folder}/{}", name.trim_end_matches(';')),
                // A file, or something in it.
                None => folder.to_owned(),
            });
        }
    }
    modules
}

#[test]
fn the_page_lists_where_unsafe_code_may_stand() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, rule) = page.split_once("\n- **I2** ").expect("the rule");
    let (rule, _) = rule.split_once("\n- **I3** ").expect("the next rule");
    let listed: BTreeSet<_> = rule
        .split('`')
        .filter(|name| name.contains("src"))
        .collect();
    let allowed: Vec<_> = crates().iter().flat_map(|of| unsafe_modules(of)).collect();
    let allowed: BTreeSet<_> = allowed.iter().map(|name| &**name).collect();
    assert_eq!(listed, allowed);
}

#[test]
fn planted_faults_are_found() {
    let planted = |of: &str, file: &str, line: &str| {
        let mut sources = sources(of);
        let text = sources.get_mut(file).unwrap();
        let place = text.find("\nuse ").or_else(|| text.find("\n\n"));
        text.insert_str(place.expect("a beginning") + 1, line);
        sources
    };
    for (file, line) in [
        ("bloom/filter/mod.rs", "use crate::bloom::stack::Stack;\n"),
        (
            "hash/batch.rs",
            "use crate::{\n    number::{ln, exp as e},\n    bloom::law::Law,\n};\n",
        ),
        (
            "machine/words/mod.rs",
            "pub use super::super::hash::Probe;\n",
        ),
        (
            "bloom/object/mod.rs",
            "fn f(_: crate::bloom::wire::Dialect) {}\n",
        ),
    ] {
        let faults = faults(&planted("crates/sketches", file, line));
        let found = faults.iter().any(|fault| fault.contains("stands above"));
        assert!(found, "{file}: {line}{faults:?}");
    }
    for (of, file, line) in [
        (
            "crates/sketches",
            "bloom/filter/bits.rs",
            "use super::Filter;\n",
        ),
        ("", "keys.rs", "use crate::families::BUNDLES;\n"),
        ("crates/protocol", "words.rs", "use crate::bloom::Insert;\n"),
    ] {
        assert_ne!(circle(&planted(of, file, line)), [""; 0], "{file}: {line}");
    }
    let mut sources = sources("crates/sketches");
    sources.insert("other.rs".to_owned(), String::new());
    let unnamed = "the page does not name other.rs".to_owned();
    assert!(faults(&sources).contains(&unnamed));
}
