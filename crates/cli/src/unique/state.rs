//! The file from which a killed run continues. It has the result of the first pass, or the checkpoint of a run with a
//! server's filter.
//!
//! The file is a zstd frame with a checksum: the head, the description of the run behind its length, and words of 128 bits.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, IntoInnerError, Read, Write};
use std::path::{Path, PathBuf};

use super::files::{STATE, failed, lock, put_in_place, resolve, unfinished};
use crate::failure::{Failure, Result};

const HEAD: &[u8] = b"valkeybloom unique 1\n";
const LEVEL: i32 = 1;

/// The state of a run. It has no file if the run can't continue.
#[derive(Default)]
pub struct State {
    file: Option<PathBuf>,
    /// Its folder, locked against other runs, unless the output's lock is on it.
    lock: Option<File>,
    /// The head, and the files and options, which must be the same when the run continues.
    head: Vec<u8>,
}

impl State {
    /// Describes a state in a folder. `locked` is the canonical path of a folder that the run has locked.
    pub fn new(folder: &Path, locked: Option<&Path>, description: &str) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))?;
        let place = resolve(folder)?;
        let islocked = locked == Some(&*place);
        let length = (description.len() as u64).to_le_bytes();
        Ok(Self {
            file: Some(folder.join(STATE)),
            lock: if islocked { None } else { Some(lock(folder)?) },
            head: [HEAD, &length, description.as_bytes()].concat(),
        })
    }

    /// Returns whether the state is in the folder of the output.
    pub const fn is_with_output(&self) -> bool {
        self.file.is_some() && self.lock.is_none()
    }

    /// Reads what an earlier run saved, and decodes it. Returns `None` if there is no state.
    ///
    /// # Errors
    /// The file can't be read, or is of a run with other files or options.
    pub fn load<T>(&self, decode: impl FnOnce(Vec<u128>) -> Option<T>) -> Result<Option<T>> {
        let Some(path) = &self.file else {
            return Ok(None);
        };
        let file = path.display();
        let damaged = || io::Error::other("it is damaged");
        let decode = |words| decode(words).ok_or_else(damaged);
        match self
            .read(path)
            .and_then(|words| words.map(decode).transpose())
        {
            Ok(Some(decoded)) => Ok(Some(decoded)),
            Ok(None) => Err(Failure::new(format!(
                "{file} is of a run with other files or options, or the files have changed: remove it to begin anew"
            ))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let advice = match error.kind() {
                    ErrorKind::Other | ErrorKind::UnexpectedEof => "; remove it to begin anew",
                    // It may pass.
                    _ => "",
                };
                Err(Failure::new(format!(
                    "could not read {file}: {error}{advice}"
                )))
            }
        }
    }

    /// Reads the words; `None` if they are of another run.
    fn read(&self, file: &Path) -> io::Result<Option<Vec<u128>>> {
        let mut from = BufReader::new(zstd::Decoder::new(File::open(file)?)?);
        let mut head = Vec::new();
        let length = self.head.len() as u64;
        from.by_ref().take(length).read_to_end(&mut head)?;
        if !head.starts_with(HEAD) {
            let text = "it is not the state of a run of this version";
            return Err(io::Error::other(text));
        }
        if head != self.head {
            return Ok(None);
        }
        let mut words = Vec::new();
        // The checksum is read at the end of the frame.
        while !from.fill_buf()?.is_empty() {
            let mut word = [0; 16];
            from.read_exact(&mut word)?;
            words.push(u128::from_le_bytes(word));
        }
        Ok(Some(words))
    }

    /// Writes words: all of them, or nothing.
    pub fn save(&self, words: impl IntoIterator<Item = u128>) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let write = || {
            let mut frame = zstd::Encoder::new(File::create(unfinished(file))?, LEVEL)?;
            frame.include_checksum(true)?;
            let mut to = BufWriter::new(frame);
            to.write_all(&self.head)?;
            for word in words {
                to.write_all(&word.to_le_bytes())?;
            }
            let frame = to.into_inner().map_err(IntoInnerError::into_error)?;
            put_in_place(&frame.finish()?, file)
        };
        write().map_err(|error| failed("write", file, &error))
    }

    /// Removes the state, because the run is done.
    pub fn remove(&self) -> Result<()> {
        let removed =
            |file: &PathBuf| fs::remove_file(file).map_err(|error| failed("remove", file, &error));
        self.file.as_ref().map_or(Ok(()), removed)
    }
}
