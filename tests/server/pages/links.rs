//! Every link leads somewhere.

use std::collections::HashSet;
use std::path::Path;

use super::{page, pages, root};

/// Returns the anchors of a page, as its readers' programs make them of headings.
fn anchors(text: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        assert!(anchors.insert(anchor), "two headings alike: {line}");
    }
    anchors
}

/// The pages that stay with the sources: in packages, links to them become their names.
const OF_SOURCES: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Returns whether the packages have a file, or its name in the place of a link.
fn is_shipped(file: &Path) -> bool {
    let file = file.canonicalize().expect("it exists");
    let path = file
        .strip_prefix(root())
        .expect("it lies in the repository");
    let (folder, name) = (path.parent().expect("a folder"), path.file_name());
    let name = name.expect("a file").to_str().expect("a name of ASCII");
    let script = page("tools/package.sh").text;
    match folder.to_str() {
        Some("") => {
            OF_SOURCES.contains(&name) || script.split_whitespace().any(|word| word == name)
        }
        Some("docs" | "examples" | "examples/compose" | "examples/kubernetes") => true,
        _ => false,
    }
}

#[test]
fn links_lead_somewhere() {
    let mut all = pages();
    let others = ["ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY"];
    all.extend(others.map(|name| page(&format!("{name}.md"))));
    for from in &all {
        let links = from.text.split("](").skip(1);
        for link in links.map(|rest| rest.split(')').next().expect("split gives one part")) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = root()
                .join(&from.path)
                .parent()
                .expect("a folder")
                .to_owned();
            let target = if file.is_empty() {
                root().join(&from.path)
            } else {
                folder.join(file)
            };
            assert!(target.exists(), "{}: {link}", from.path);
            assert!(is_shipped(&target), "{}: {link}", from.path);
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&target).expect("a text");
                assert!(anchors(&text).contains(anchor), "{}: {link}", from.path);
            }
        }
    }
}

#[test]
fn the_readme_leads_to_every_page() {
    let readme = page("README.md").text;
    assert!(readme.lines().count() <= 160, "the README is short");
    let mut links: Vec<&str> = readme.split("](").skip(1).collect();
    for link in &mut links {
        *link = link.split(')').next().expect("split gives one part");
    }
    links.sort_unstable();
    let twice = links.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "each link stands once");
    for page in pages() {
        let link = format!("]({})", page.path);
        assert!(page.path == "README.md" || readme.contains(&link), "{link}");
    }
}
