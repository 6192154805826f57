//! Files that are replaced in one step.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Replaces a file in one step, so that no reader sees half of it. The new file has the old one's permissions. Symbolic
/// links are followed, to a file that may be missing. A pipe or a device is written to instead.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    let old = file.metadata().ok();
    // A link in /dev/fd does not have the path of what it points to.
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return fs::write(file, text);
    }
    let file = target(file)?;
    // The ending keeps it from collectors, and the name does not grow with the file's, which may be the longest possible.
    let name = format!(".valkeybloom-{:016x}.tmp", getrandom::u64()?);
    let temporary = &file.with_file_name(name);
    // Nobody else has this file, in this process or another one.
    let mut new = File::create_new(temporary)?;
    let done = old
        .map_or(Ok(()), |old| new.set_permissions(old.permissions()))
        .and_then(|()| new.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(temporary, file));
    if done.is_err() {
        let _ = fs::remove_file(temporary);
    }
    done
}

/// Returns the path at the end of symbolic links.
fn target(file: &Path) -> io::Result<PathBuf> {
    /// The most links that Linux follows.
    const LINKS: usize = 40;
    let mut file = file.to_owned();
    for _ in 0..LINKS {
        if !file.is_symlink() {
            return Ok(file);
        }
        let next = fs::read_link(&file)?;
        file.set_file_name(next);
    }
    // The system refuses as many links, too, so this fails with its error.
    file.metadata().map(|_| file)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    /// Returns the names in a folder.
    fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("it is a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.into_string().expect("it is UTF-8"));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn folder() -> TempDir {
        TempDir::new().expect("there is room")
    }

    #[test]
    fn a_new_file_takes_the_place_of_the_old_one_and_its_permissions() {
        let folder = folder();
        let file = folder.path().join("file");
        replace(&file, "old").expect("it is made");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("it is ours");
        let mut reader = File::open(&file).expect("it is there");
        replace(&file, "new").expect("it is replaced");
        // A reader of the old file still reads all of it.
        assert_eq!(io::read_to_string(&mut reader).expect("text"), "old");
        assert_eq!(fs::read_to_string(&file).expect("text"), "new");
        let mode = file.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(names(&folder), ["file"]);
    }

    #[test]
    fn links_are_followed_to_files_that_may_be_missing() {
        let folder = folder();
        let path = |name| folder.path().join(name);
        fs::create_dir(path("below")).expect("there is room");
        symlink("below/file", path("between")).expect("there is room");
        symlink(path("between"), path("first")).expect("there is room");
        for text in ["made", "replaced"] {
            replace(&path("first"), text).expect("its folder is there");
            assert!(path("first").is_symlink() && path("between").is_symlink());
            let file = path("below/file");
            assert!(!file.is_symlink());
            assert_eq!(fs::read_to_string(file).expect("text"), text);
        }
    }

    #[test]
    fn a_circle_of_links_is_an_error() {
        let folder = folder();
        let path = |name| folder.path().join(name);
        symlink("one", path("other")).expect("there is room");
        symlink("other", path("one")).expect("there is room");
        let error = replace(&path("one"), "text").expect_err("it has no end");
        assert_eq!(
            error.kind(),
            path("one").metadata().expect_err("the same").kind()
        );
        assert_eq!(names(&folder), ["one", "other"]);
    }

    #[test]
    fn nothing_is_left_of_a_file_that_could_not_be_replaced() {
        let folder = folder();
        let missing = folder.path().join("missing/file");
        replace(&missing, "text").expect_err("its folder is missing");
        let slash = folder.path().join("file/");
        replace(&slash, "text").expect_err("its slash is for folders");
        assert_eq!(names(&folder), [""; 0]);
    }

    #[test]
    fn an_open_pipe_is_written_to() {
        let (from, to) = io::pipe().expect("a pipe");
        let path = format!("/dev/fd/{}", to.as_raw_fd());
        replace(Path::new(&path), "some text").expect("it takes some bytes");
        drop(to);
        assert_eq!(io::read_to_string(from).expect("it is a text"), "some text");
    }
}
