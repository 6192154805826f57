//! Where records are written: the standard output, or a folder.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::files::{STATE, failed, is_own, lock, put_in_place, unfinished};
use super::state::State;
use crate::failure::{Failure, Result};
use crate::lines::{Packed, Stamp, Start};
use crate::report;

/// The most bytes that are gathered before they are written.
const MOST_BYTES: usize = 2 << 20;

pub enum Output {
    Nothing,
    Standard {
        file: File,
        /// The record with the names of columns that was written there.
        header: Option<Vec<u8>>,
    },
    Folder(Folder),
}

impl Output {
    /// Returns the standard output, without a buffer.
    ///
    /// # Errors
    /// It is one of the files that are read, or not open.
    pub fn standard(files: &[Option<Stamp>]) -> Result<Self> {
        let failed =
            |error: io::Error| Failure::new(format!("could not use the standard output: {error}"));
        let file = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
        let about = file.metadata().map_err(failed)?;
        let place = Stamp::of(&about, 0).place;
        if files.iter().flatten().any(|file| file.place == place) {
            let text = "the standard output is one of the files: write to another";
            return Err(Failure::new(text));
        }
        Ok(Self::Standard { file, header: None })
    }

    /// Requires that nothing is there that this run would write.
    pub fn require_none(&self) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.require_none(),
            _ => Ok(()),
        }
    }

    /// Requires that no state of another run is there, which would take later output for its own.
    pub fn require_no_other(&self, own: &State) -> Result<()> {
        match self {
            Self::Folder(folder) if !own.is_with_output() => none_of(&folder.state),
            _ => Ok(()),
        }
    }

    /// Begins the records of a file.
    ///
    /// # Errors
    /// Its columns have other names than those on the standard output, whose records are written by then; or a file of a
    /// folder could not be written.
    pub fn begin(&mut self, index: usize, start: &Start) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Standard { .. } if start.header.is_empty() => Ok(()),
            Self::Standard {
                header: Some(header),
                ..
            } => {
                if without_end(header) == without_end(&start.header) {
                    return Ok(());
                }
                let text =
                    "the files have different names in their first lines: write them with --out";
                Err(Failure::new(text))
            }
            Self::Standard { header, .. } => {
                *header = Some(start.header.clone());
                self.write(&start.header)
            }
            Self::Folder(folder) => folder.begin(index, start, 0),
        }
    }

    /// Writes bytes. Ends the process if the standard output can't be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            _ if bytes.is_empty() => Ok(()),
            Self::Standard { file, .. } => {
                file.write_all(bytes)
                    .unwrap_or_else(|error| report::end_without_output(&error));
                Ok(())
            }
            Self::Folder(folder) => folder.write(bytes),
        }
    }

    /// Adds bytes to a buffer. If they would overfill it, both are written.
    pub fn gather(&mut self, gathered: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
        if gathered.len() + bytes.len() <= MOST_BYTES {
            gathered.extend_from_slice(bytes);
            return Ok(());
        }
        self.write(gathered)?;
        gathered.clear();
        self.write(bytes)
    }

    /// Ends the last file.
    pub fn end(&mut self) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.finish(),
            _ => Ok(()),
        }
    }
}

/// Returns a record without its line end.
fn without_end(record: &[u8]) -> &[u8] {
    let line = record.strip_suffix(b"\n").unwrap_or(record);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A folder with a file for each input.
pub struct Folder {
    /// The folder, open and locked against other runs.
    locked: File,
    /// The state of an earlier run, if it is here.
    state: Option<PathBuf>,
    files: Vec<Target>,
    open: Option<(PathBuf, Writer)>,
    /// Whether each write is compressed alone, so that a file can be cut after any of them.
    can_be_cut: bool,
}

/// The file of an input.
struct Target {
    path: PathBuf,
    /// Whether it is there: an earlier run finished it.
    is_finished: bool,
}

enum Writer {
    /// Each write is a member of its own, or plain.
    Members(File, Packed),
    Gzip(GzEncoder<File>),
    Zstd(zstd::Encoder<'static, File>),
}

/// Returns the names of the inputs, which their outputs have too.
///
/// # Errors
/// An input has no name for a file, or two have the same.
fn names(inputs: &[PathBuf]) -> Result<Vec<&OsStr>> {
    let mut names = Vec::with_capacity(inputs.len());
    for input in inputs {
        let refused = |why| Err(Failure::usage(format!("{} {why}", input.display())));
        match input.file_name().filter(|_| input.as_os_str() != "-") {
            None => return refused("has no name for --out"),
            Some(name) if is_own(name) => {
                return refused("has a name that this program gives to files");
            }
            Some(name) => names.push(name),
        }
    }
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(**name)) {
        None => Ok(names),
        Some(name) => Err(Failure::usage(format!(
            "two files have the name {}: write them to two folders",
            name.display()
        ))),
    }
}

impl Folder {
    /// Names each file after its input. If they are to be cut, each write is compressed alone.
    ///
    /// # Errors
    /// An input has no name for a file, or two have the same; the folder could not be created, or another run has locked it.
    pub fn new(folder: &Path, inputs: &[PathBuf], can_be_cut: bool) -> Result<Self> {
        let names = names(inputs)?;
        fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))?;
        let locked = lock(folder)?;
        let mut files = Vec::with_capacity(inputs.len());
        for name in names {
            let path = folder.join(name);
            let is_finished = path.try_exists();
            let is_finished = is_finished.map_err(|error| failed("look for", &path, &error))?;
            files.push(Target { path, is_finished });
        }
        let state = Some(folder.join(STATE)).filter(|state| state.exists());
        Ok(Self {
            locked,
            state,
            files,
            open: None,
            can_be_cut,
        })
    }

    /// Requires that no output exists yet, and no state of a run that would take later output for its own.
    fn require_none(&self) -> Result<()> {
        let finished = self.files.iter().filter(|file| file.is_finished);
        none_of(finished.map(|file| &file.path).chain(&self.state))
    }

    /// Returns whether an earlier run finished every file.
    pub fn is_complete(&self) -> bool {
        self.files.iter().all(|file| file.is_finished)
    }

    /// Flushes what was written of a file that can be cut to the disk. Returns its length; 0 if none is open.
    pub fn sync(&mut self) -> Result<u64> {
        let Some((path, Writer::Members(file, _))) = &mut self.open else {
            return Ok(0);
        };
        let synced = file.sync_data().and_then(|()| file.stream_position());
        synced.map_err(|error| failed("write", path, &error))
    }

    /// Returns whether the file of an input still has the bytes that an earlier run put on the disk, as far as can be told.
    pub fn has_kept(&self, index: usize, bytes: u64) -> bool {
        match fs::metadata(unfinished(&self.files[index].path)) {
            Ok(about) => about.len() >= bytes,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Begins the file of an input, or continues it if an earlier run has put some bytes of it on the disk, unless it is
    /// finished.
    pub fn begin(&mut self, index: usize, start: &Start, done_bytes: u64) -> Result<()> {
        self.finish()?;
        let Target { path, is_finished } = &self.files[index];
        if *is_finished {
            return Ok(());
        }
        let name = unfinished(path);
        let file = if done_bytes > 0 {
            continued(&name, done_bytes).map_err(|error| failed("continue", &name, &error))?
        } else {
            File::create(name).map_err(|error| failed("write", path, &error))?
        };
        let fault = |error| failed("write", path, &error);
        if self.can_be_cut {
            // A checkpoint may describe the file, so its name must be on the disk.
            self.locked.sync_all().map_err(fault)?;
        }
        let writer = match start.packed {
            Packed::Gzip if !self.can_be_cut => {
                Writer::Gzip(GzEncoder::new(file, Compression::default()))
            }
            Packed::Zstd if !self.can_be_cut => {
                Writer::Zstd(zstd::Encoder::new(file, 0).map_err(fault)?)
            }
            packed => Writer::Members(file, packed),
        };
        self.open = Some((path.clone(), writer));
        if done_bytes > 0 {
            return Ok(());
        }
        self.write(&start.header)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some((path, writer)) = &mut self.open else {
            return Ok(());
        };
        let written = match writer {
            Writer::Members(file, Packed::Plain) => file.write_all(bytes),
            Writer::Members(file, Packed::Gzip) => {
                let mut member = GzEncoder::new(file, Compression::default());
                member.write_all(bytes).and_then(|()| member.try_finish())
            }
            Writer::Members(file, Packed::Zstd) => zstd::stream::copy_encode(bytes, file, 0),
            Writer::Gzip(file) => file.write_all(bytes),
            Writer::Zstd(file) => file.write_all(bytes),
        };
        written.map_err(|error| failed("write", path, &error))
    }

    /// Puts the open file in place.
    fn finish(&mut self) -> Result<()> {
        let Some((path, writer)) = self.open.take() else {
            return Ok(());
        };
        let file = match writer {
            Writer::Members(file, _) => Ok(file),
            Writer::Gzip(file) => file.finish(),
            Writer::Zstd(file) => file.finish(),
        };
        let placed = file.and_then(|file| put_in_place(&file, &path));
        placed.map_err(|error| failed("write", &path, &error))
    }
}

/// Requires that none of these files of another run is there.
fn none_of<'f>(files: impl IntoIterator<Item = &'f PathBuf>) -> Result<()> {
    match files.into_iter().next() {
        None => Ok(()),
        Some(path) => Err(Failure::new(format!(
            "{} exists, and is not of this run: move it away, or name another folder",
            path.display()
        ))),
    }
}

/// Opens a file after its first bytes, and cuts off the others.
fn continued(path: &Path, bytes: u64) -> io::Result<File> {
    let mut file = File::options().write(true).open(path)?;
    if file.seek(SeekFrom::End(0))? < bytes {
        return Err(io::Error::other("it has lost what an earlier run wrote"));
    }
    file.set_len(bytes)?;
    file.seek(SeekFrom::Start(bytes))?;
    Ok(file)
}
