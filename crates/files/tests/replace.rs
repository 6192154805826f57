//! Tests of replaced files and of open ones.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use tempfile::TempDir;
use valkeybloom_files::replace;

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
    replace(&file, b"old").expect("it is made");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("it is ours");
    let mut reader = File::open(&file).expect("it is there");
    replace(&file, b"new").expect("it is replaced");
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
    replace(&file, b"old").expect("it is made");
    let _ = chown(&file, Some(12_345), Some(54_321));
    let owners = || file.metadata().map(|it| (it.uid(), it.gid())).ok();
    let before = owners();
    replace(&file, b"new").expect("it is replaced");
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
        replace(&path("first"), text.as_bytes()).expect("its folder is there");
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
    let error = replace(&path("one"), b"text").expect_err("it has no end");
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
    replace(&path(40), b"new").expect("40 links are followed");
    assert_eq!(fs::read_to_string(path(0)).expect("text"), "new");
    let error = replace(&path(41), b"text").expect_err("it is too long");
    let expected = path(41).metadata().expect_err("the same");
    assert_eq!(error.raw_os_error(), expected.raw_os_error());
    assert_eq!(fs::read_to_string(path(0)).expect("text"), "new");
    assert!((1..=41).all(|number| path(number).is_symlink()));
}

#[test]
fn nothing_is_left_of_a_file_that_could_not_be_replaced() {
    let folder = folder();
    let missing = folder.path().join("missing/file");
    replace(&missing, b"text").expect_err("its folder is missing");
    let slash = folder.path().join("file/");
    replace(&slash, b"text").expect_err("its slash is for folders");
    assert_eq!(names(&folder), [""; 0]);
}

#[test]
fn an_open_pipe_is_written_to() {
    let (from, to) = io::pipe().expect("a pipe");
    let path = format!("/dev/fd/{}", to.as_raw_fd());
    replace(Path::new(&path), b"some text").expect("it takes some bytes");
    drop(to);
    assert_eq!(io::read_to_string(from).expect("it is a text"), "some text");
}

/// The other tests have full paths.
#[test]
fn an_open_pipe_in_the_working_folder_is_written_to() {
    let (from, to) = io::pipe().expect("a pipe");
    let before = env::current_dir().expect("it is there");
    env::set_current_dir("/proc/self/fd").expect("the system has it");
    let done = replace(Path::new(&to.as_raw_fd().to_string()), b"some text");
    env::set_current_dir(before).expect("it is there");
    drop(to);
    done.expect("it takes some bytes");
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
        replace(Path::new(&name), b"named,").expect("it is open");
        symlink(&name, &link).expect("there is room");
        replace(&link, b"linked,").expect("it is open");
        fs::remove_file(&link).expect("it is there");
    }
    let text = format!("old,{}", "named,linked,".repeat(3));
    assert_eq!(fs::read_to_string(&path).expect("text"), text);
    assert_eq!(names(&folder), ["file"]);
}

/// As a shell opens it for `3>file`: what is written before and after shares one position. Where a sandbox forbids to
/// duplicate descriptors, the text is appended, and what comes after is written over it.
#[test]
fn an_open_file_is_written_to_at_its_position() {
    let folder = folder();
    let path = folder.path().join("file");
    let mut open = File::create_new(&path).expect("there is room");
    let number = open.as_raw_fd();
    open.write_all(b"before,").expect("there is room");
    replace(Path::new(&format!("/dev/fd/{number}")), b"some text,").expect("it is open");
    open.write_all(b"after").expect("there is room");
    let this = pidfd_open(getpid(), PidfdFlags::empty());
    let same = this.and_then(|this| pidfd_getfd(this, number, PidfdGetfdFlags::empty()));
    let expected = match same {
        Ok(_) => "before,some text,after",
        Err(_) => "before,aftertext,",
    };
    assert_eq!(fs::read_to_string(&path).expect("text"), expected);
    assert_eq!(names(&folder), ["file"]);
}

#[test]
fn an_open_file_of_another_process_is_appended_to() {
    let folder = folder();
    let path = folder.path().join("file");
    let open = File::create_new(&path).expect("there is room");
    let mut cat = Command::new("cat");
    let cat = cat.stdin(Stdio::piped()).stdout(open).spawn();
    let mut cat = cat.expect("the system has it");
    let name = format!("/proc/{}/fd/1", cat.id());
    let done = replace(Path::new(&name), b"some text");
    drop(cat.stdin.take());
    cat.wait().expect("it ends");
    done.expect("it is open");
    assert_eq!(fs::read_to_string(&path).expect("text"), "some text");
    assert_eq!(names(&folder), ["file"]);
}
