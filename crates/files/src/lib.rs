//! Files that are replaced in one step.

mod descriptor;

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// Replaces a file in one step, so that no reader sees half of it, even after a crash of the system. Symbolic links are
/// followed, to a file that may be missing. A pipe, a device or an open file, such as /dev/stdout, is written to instead.
///
/// The new file has the old one's permissions, and its owner and group where the system permits that. If it has another
/// group, this group gets the permissions of all others. The new file does not have the old one's access control lists and
/// extended attributes, and other hard links keep the old file. A process that is killed meanwhile leaves a file in the same
/// folder, whose name is `.valkeybloom-`, 16 digits and `.tmp`.
///
/// The new file is on the disk before it gets its name. The folder is not synced, so after a crash of the system it may have
/// the old file.
///
/// # Errors
/// A call of the system failed. The old file is still there, then; a pipe, a device or an open file may have got a part. A
/// file that is a mount point itself, such as one that is bound into a container, can't be replaced.
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
    let new = create(temporary, old.is_some())?;
    let done = fill(new, bytes, old).and_then(|()| fs::rename(temporary, path));
    if done.is_err() {
        let _ = fs::remove_file(temporary);
    }
    done
}

/// Creates a file, for its owner alone if it gets its permissions later: whoever may open it in between can read what is
/// written after.
fn create(path: &Path, is_private: bool) -> io::Result<File> {
    let mode = if is_private { 0o600 } else { 0o666 };
    let mut options = File::options();
    options.write(true).create_new(true).mode(mode).open(path)
}

/// Writes a new file to the disk, with the owner and the permissions of an old one.
fn fill(mut new: File, bytes: &[u8], old: Option<&Metadata>) -> io::Result<()> {
    if let Some(old) = old {
        // Only root may give files away, and a change of owner may take permissions away.
        let _ = fchown(&new, None, Some(old.gid()));
        let _ = fchown(&new, Some(old.uid()), None);
        let now = new.metadata()?;
        let mode = mode(old.mode(), now.uid() == old.uid(), now.gid() == old.gid());
        new.set_permissions(Permissions::from_mode(mode))?;
    }
    new.write_all(bytes)?;
    new.sync_all()
}

/// Returns the mode of a file that replaces one of this mode. Another group may do what all others may. Bits that have a file
/// run as its owner or group are for the old ones alone.
const fn mode(old: u32, has_owner: bool, has_group: bool) -> u32 {
    match (has_owner, has_group) {
        (true, true) => old & 0o7777,
        (false, true) => old & 0o777,
        (_, false) => old & 0o707 | (old & 0o007) << 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_private_until_it_has_its_permissions() {
        let folder = tempfile::tempdir().expect("there is room");
        let mode = |name, is_private| {
            let file = create(&folder.path().join(name), is_private);
            let about = file.and_then(|file| file.metadata());
            about.expect("it is new").mode() & 0o7777
        };
        assert_eq!(mode("private", true), 0o600);
        let usual = File::create_new(folder.path().join("file")).and_then(|it| it.metadata());
        assert_eq!(
            mode("usual", false),
            usual.expect("it is new").mode() & 0o7777
        );
    }

    #[test]
    fn another_group_gets_no_more_than_all_others() {
        for (old, has_owner, has_group, new) in [
            (0o100_640, true, true, 0o640),
            (0o100_640, false, true, 0o640),
            (0o100_640, true, false, 0o600),
            (0o100_660, false, false, 0o600),
            (0o100_664, true, false, 0o644),
            (0o100_604, true, false, 0o644),
            (0o106_755, true, true, 0o6755),
            (0o106_755, false, true, 0o755),
            (0o106_750, true, false, 0o700),
        ] {
            let found = mode(old, has_owner, has_group);
            assert_eq!(found, new, "{old:o}: {found:o}");
        }
    }
}
