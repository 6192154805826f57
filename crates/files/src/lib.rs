//! Files that are replaced in one step.

mod descriptor;

use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

/// Replaces a file in one step, so that no reader sees half of it, even after a crash of the system. Symbolic links are
/// followed, to a file that may be missing. A pipe, a device or an open file, such as /dev/stdout, is written to instead.
///
/// The new file has the old one's permissions, and its owner and group where the system permits that. It does not have the
/// old one's access control lists and extended attributes, and other hard links keep the old file. A process that is
/// killed meanwhile leaves a file in the same folder, whose name is `.valkeybloom-`, 16 digits and `.tmp`.
///
/// # Errors
/// A call of the system failed. The old file is still there, then; a pipe, a device or an open file may have got a part.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = &target(path)?;
    let old = path.metadata().ok();
    let named = descriptor::named(path);
    if named.is_none() && old.as_ref().is_none_or(Metadata::is_file) {
        return put(path, bytes, old.as_ref());
    }
    let mut open = match named.as_deref().and_then(descriptor::duplicate) {
        Some(same) => same,
        None => File::options().append(true).open(path)?,
    };
    open.write_all(bytes)
}

/// Returns the path at the end of symbolic links, or the first one on the way that names a descriptor.
fn target(path: &Path) -> io::Result<PathBuf> {
    /// The most links that Linux follows.
    const LINKS: usize = 40;
    let mut end = path.to_owned();
    for _ in 0..LINKS {
        if descriptor::named(&end).is_some() || !end.is_symlink() {
            return Ok(end);
        }
        let next = fs::read_link(&end)?;
        end.set_file_name(next);
    }
    if end.is_symlink() {
        // The system follows as many links from the first one, so this fails with its error.
        path.metadata()?;
    }
    Ok(end)
}

/// Puts a new file in the place of an old one.
fn put(path: &Path, bytes: &[u8], old: Option<&Metadata>) -> io::Result<()> {
    // The ending keeps it from collectors, and the name does not grow with the file's, which may be the longest possible.
    let name = format!(".valkeybloom-{:016x}.tmp", getrandom::u64()?);
    let temporary = &path.with_file_name(name);
    // Nobody else has this file, in this process or another one.
    let new = File::create_new(temporary)?;
    let done = fill(new, bytes, old).and_then(|()| fs::rename(temporary, path));
    if done.is_err() {
        let _ = fs::remove_file(temporary);
    }
    done
}

/// Writes a new file to the disk, with the owner and the permissions of an old one.
fn fill(mut new: File, bytes: &[u8], old: Option<&Metadata>) -> io::Result<()> {
    if let Some(old) = old {
        // Only root may give files away, and a change of owner may take permissions away.
        let _ = fchown(&new, None, Some(old.gid()));
        let _ = fchown(&new, Some(old.uid()), None);
        new.set_permissions(old.permissions())?;
    }
    new.write_all(bytes)?;
    new.sync_all()
}
