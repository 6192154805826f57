//! Files that are replaced in one step.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

/// Replaces a file in one step, so that no reader sees half of it. The new file has the old one's permissions, and its owner
/// and group where the system permits that. Symbolic links are followed, to a file that may be missing. A pipe, a device or
/// an open file, such as /dev/stdout, is written to instead.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = target(file)?;
    let old = file.metadata().ok();
    if is_open(&file) || old.as_ref().is_some_and(|old| !old.is_file()) {
        return append(&file, text);
    }
    // The ending keeps it from collectors, and the name does not grow with the file's, which may be the longest possible.
    let name = format!(".valkeybloom-{:016x}.tmp", getrandom::u64()?);
    let temporary = &file.with_file_name(name);
    // Nobody else has this file, in this process or another one.
    let mut new = File::create_new(temporary)?;
    let done = old
        .map_or(Ok(()), |old| {
            // Only root may give files away, and a change of owner may take permissions away.
            let _ = fchown(&new, None, Some(old.gid()));
            let _ = fchown(&new, Some(old.uid()), None);
            new.set_permissions(old.permissions())
        })
        .and_then(|()| new.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(temporary, file));
    if done.is_err() {
        let _ = fs::remove_file(temporary);
    }
    done
}

/// Returns the path at the end of symbolic links, or the first one on the way that names an open file.
fn target(file: &Path) -> io::Result<PathBuf> {
    /// The most links that Linux follows.
    const LINKS: usize = 40;
    let mut end = file.to_owned();
    for _ in 0..LINKS {
        if is_open(&end) || !end.is_symlink() {
            return Ok(end);
        }
        let next = fs::read_link(&end)?;
        end.set_file_name(next);
    }
    if end.is_symlink() {
        // The system follows as many links from the first one, so this fails with its error.
        file.metadata()?;
    }
    Ok(end)
}

/// Returns whether a path is that of an open file: what it links to may have no path, or one that others still write to.
fn is_open(file: &Path) -> bool {
    let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
    folder.is_some_and(|folder| folder.starts_with("/proc") && folder.ends_with("fd"))
}

/// Writes to the end of a file, a pipe or a device.
fn append(file: &Path, text: &str) -> io::Result<()> {
    // Those who share the standard output share its position, too, and would write over what is appended at another one.
    if ["/dev/fd/1", "/proc/self/fd/1"].contains(&file.to_string_lossy().as_ref()) {
        io::stdout().write_all(text.as_bytes())?;
        return io::stdout().flush();
    }
    let mut open = File::options().append(true).open(file)?;
    open.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

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

    /// Only root can run all of it.
    #[test]
    fn a_new_file_has_the_owner_of_the_old_one() {
        let folder = folder();
        let file = folder.path().join("file");
        replace(&file, "old").expect("it is made");
        let _ = chown(&file, Some(12_345), Some(54_321));
        let owners = || file.metadata().map(|it| (it.uid(), it.gid())).ok();
        let before = owners();
        replace(&file, "new").expect("it is replaced");
        assert_eq!(owners(), before);
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
    fn a_chain_is_as_long_as_the_system_allows() {
        let folder = folder();
        let path = |number| folder.path().join(format!("{number:02}"));
        for number in 1..=41 {
            symlink(path(number - 1), path(number)).expect("there is room");
        }
        replace(&path(40), "new").expect("40 links are followed");
        assert_eq!(fs::read_to_string(path(0)).expect("text"), "new");
        let error = replace(&path(41), "text").expect_err("it is too long");
        let expected = path(41).metadata().expect_err("the same");
        assert_eq!(error.raw_os_error(), expected.raw_os_error());
        assert_eq!(fs::read_to_string(path(0)).expect("text"), "new");
        assert!((1..=41).all(|number| path(number).is_symlink()));
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

    /// As a shell opens it for `3>>file`.
    #[test]
    fn an_open_file_is_appended_to() {
        let folder = folder();
        let path = folder.path().join("file");
        fs::write(&path, "old,").expect("there is room");
        let open = File::options().append(true).open(&path);
        let number = open.as_ref().expect("it is there").as_raw_fd();
        let link = folder.path().join("link");
        for name in ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"] {
            let name = format!("{name}/{number}");
            replace(Path::new(&name), "named,").expect("it is open");
            symlink(&name, &link).expect("there is room");
            replace(&link, "linked,").expect("it is open");
            fs::remove_file(&link).expect("it is there");
        }
        let text = format!("old,{}", "named,linked,".repeat(3));
        assert_eq!(fs::read_to_string(&path).expect("text"), text);
        assert_eq!(names(&folder), ["file"]);
    }
}
