//! Files that are locked, and written whole or not at all.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The end of the name of a file that is not whole yet.
const UNFINISHED: &str = ".valkeybloom-unfinished";
/// The name of the state of a run.
pub const STATE: &str = ".valkeybloom-unique";

/// Returns whether files of the program itself have this name.
pub fn is_own(name: &OsStr) -> bool {
    name == STATE || name.as_encoded_bytes().ends_with(UNFINISHED.as_bytes())
}

/// Locks a folder against other runs, as long as the file is open.
pub fn lock(folder: &Path) -> Result<File> {
    let lock = File::open(folder).map_err(|error| failed("open", folder, &error))?;
    // File systems without locks are not locked.
    if let Err(TryLockError::WouldBlock) = lock.try_lock() {
        let text = format!("another run is writing into {}", folder.display());
        return Err(Failure::new(text));
    }
    Ok(lock)
}

/// Returns the path of a folder, the same from every working folder.
pub fn resolve(folder: &Path) -> Result<PathBuf> {
    let path = folder.canonicalize();
    path.map_err(|error| failed("open", folder, &error))
}

/// Returns the name of a file that is not whole yet.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// Gives a file its final name, once it is on the disk.
pub fn put_in_place(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(unfinished(path), path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns the failure to do what a verb says to a file or a folder.
pub fn failed(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("could not {verb} {}: {error}", path.display()))
}
