//! Open descriptors that paths name, such as /dev/stdout or /dev/fd/3.
//!
//! A descriptor may refer to something without a path, or to a file that others still write to, so that file is not
//! replaced. The descriptor is duplicated where that is possible: all who share a descriptor share its position, and would
//! write over what is written at another position. The file is opened a second time, to append to it, if the descriptor is
//! another process's, if a sandbox forbids the duplicate, and before Linux 5.6.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// Returns the path in /proc of the descriptor that a path names, if it names one.
pub fn named(path: &Path) -> Option<PathBuf> {
    let folder = match path.parent()? {
        folder if folder.as_os_str().is_empty() => Path::new("."),
        folder => folder,
    };
    let folder = folder.canonicalize().ok()?;
    let has_descriptors = folder.starts_with("/proc") && folder.ends_with("fd");
    has_descriptors.then(|| folder.join(path.file_name().unwrap_or_default()))
}

/// Duplicates the descriptor with this path in /proc. Returns `None` if it is another process's, or can't be duplicated.
pub fn duplicate(path: &Path) -> Option<File> {
    let own = Path::new("/proc/self").canonicalize().ok()?;
    let name = path.strip_prefix(own).ok()?.file_name()?.to_str()?;
    // The kernel accepts no other form of a number, such as 01.
    let is_canonical = |number: &i32| *number >= 0 && number.to_string() == name;
    let same = match name.parse().ok().filter(is_canonical)? {
        1 => io::stdout().as_fd().try_clone_to_owned(),
        2 => io::stderr().as_fd().try_clone_to_owned(),
        number => duplicate_any(number),
    };
    same.ok().map(File::from)
}

/// Duplicates a descriptor by the system call for debuggers, which sandboxes may forbid, and which Linux has since 5.6.
/// Rust's functions for any number are unsafe: the descriptor might belong to a part of the program that closes it.
#[cfg(target_os = "linux")]
fn duplicate_any(number: i32) -> io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

    let this = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(this, number, PidfdGetfdFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
fn duplicate_any(_: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_form_of_a_number_names_a_descriptor() {
        let folder = Path::new("/proc/self/fd").canonicalize();
        let folder = folder.expect("the system has it");
        for (number, is_one) in [("1", true), ("01", false), ("+1", false), ("-1", false)] {
            let found = duplicate(&folder.join(number));
            assert_eq!(found.is_some(), is_one, "{number}");
        }
    }
}
