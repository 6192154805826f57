//! What the first pass found, or how far a run with a server's filter has come, in a file from which a killed run goes on.
//!
//! ```text
//!   the head, the description of the run and its length, the seed, the number of suspects, the suspects, a checksum
//!   the head, the description of the run and its length, numbers, a checksum
//! ```

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use valkeybloom_sketches::Seed;

use super::layer::Hash;
use super::output::{failed, put_in_place, unfinished};
use super::suspects::Suspects;
use crate::failure::{Failure, Result};

const HEAD: &[u8] = b"valkeybloom unique 1\n";
const NAME: &str = ".valkeybloom-unique";
/// The suspects that are read or written at once.
const CHUNK: usize = 4096;

/// The state of a run.
pub struct State {
    file: PathBuf,
    /// The files and options, which must be the same when the run goes on.
    description: String,
}

/// A reader or a writer, and the checksum of what went through it.
struct Summed<F> {
    file: F,
    sum: u64,
}

impl<F> Summed<F> {
    fn add(&mut self, bytes: &[u8]) {
        let (a, _) = Seed::FIXED.probe(bytes).hashes();
        self.sum = (self.sum.rotate_left(1) ^ a).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl<F: Write> Summed<F> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.add(bytes);
        self.file.write_all(bytes)
    }
}

impl<F: Read> Summed<F> {
    fn get(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file
            .by_ref()
            .take(count as u64)
            .read_to_end(&mut bytes)?;
        if bytes.len() < count {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.add(&bytes);
        Ok(bytes)
    }

    fn number(&mut self) -> io::Result<usize> {
        let bytes = self
            .get(8)?
            .try_into()
            .map_err(|_| ErrorKind::InvalidData)?;
        usize::try_from(u64::from_le_bytes(bytes)).map_err(io::Error::other)
    }

    /// Reads the checksum.
    fn end(&mut self) -> io::Result<()> {
        let sum = self.sum;
        if self.number()? as u64 != sum {
            return Err(io::Error::other("it is damaged"));
        }
        Ok(())
    }
}

impl State {
    pub fn new(folder: &Path, description: String) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        Ok(Self {
            file: folder.join(NAME),
            description,
        })
    }

    /// Opens what an earlier run left; `None` if there is nothing.
    ///
    /// # Errors
    /// It can't be read, or is of a run with other files or options.
    fn open(&self) -> Result<Option<Summed<BufReader<File>>>> {
        let file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unread(error)),
        };
        let mut from = Summed {
            file: BufReader::new(file),
            sum: 0,
        };
        let description = Self::head(&mut from).map_err(|error| self.unread(error))?;
        if description == self.description.as_bytes() {
            return Ok(Some(from));
        }
        Err(Failure::new(format!(
            "{} is of a run with other files or options, or the files have changed: remove it to begin anew",
            self.file.display()
        )))
    }

    /// Returns what the first pass of an earlier run found; `None` if there was none.
    ///
    /// # Errors
    /// It can't be read, or is of a run with other files or options.
    pub fn load(&self) -> Result<Option<(Seed, Suspects)>> {
        let found = self.open()?.map(|mut from| Self::rest(&mut from));
        found.transpose().map_err(|error| self.unread(error))
    }

    /// Returns the numbers that an earlier run saved; `None` if there was none.
    ///
    /// # Errors
    /// They can't be read, or are of a run with other files or options.
    pub fn load_numbers<const N: usize>(&self) -> Result<Option<[u64; N]>> {
        let found = self.open()?.map(|mut from| {
            let mut numbers = [0; N];
            for number in &mut numbers {
                *number = from.number()? as u64;
            }
            from.end().map(|()| numbers)
        });
        found.transpose().map_err(|error| self.unread(error))
    }

    fn head(from: &mut Summed<impl Read>) -> io::Result<Vec<u8>> {
        if from.get(HEAD.len())? != HEAD {
            return Err(io::Error::other(
                "it is not the state of a run of this version",
            ));
        }
        let count = from.number()?;
        from.get(count)
    }

    fn rest(from: &mut Summed<impl Read>) -> io::Result<(Seed, Suspects)> {
        let seed = from
            .get(32)?
            .try_into()
            .map_err(|_| ErrorKind::InvalidData)?;
        let count = from.number()?;
        let mut hashes = Vec::new();
        while hashes.len() < count {
            let bytes = from.get((count - hashes.len()).min(CHUNK) * size_of::<Hash>())?;
            let (words, _) = bytes.as_chunks();
            hashes.extend(words.iter().map(|word| Hash::from_le_bytes(*word)));
        }
        from.end()?;
        Ok((Seed::new(seed), Suspects::of_sorted(hashes)))
    }

    fn unread(&self, error: impl std::fmt::Display) -> Failure {
        let file = self.file.display();
        Failure::new(format!(
            "could not read {file}: {error}; remove it to begin anew"
        ))
    }

    /// Writes what the first pass found: all of it, or nothing.
    pub fn save(&self, seed: &Seed, suspects: &Suspects) -> Result<()> {
        self.write(|to| {
            to.put(seed.as_bytes())?;
            to.put(&(suspects.len() as u64).to_le_bytes())?;
            suspects.hashes().chunks(CHUNK).try_for_each(|hashes| {
                let bytes: Vec<_> = hashes.iter().map(|hash| hash.to_le_bytes()).collect();
                to.put(bytes.as_flattened())
            })
        })
    }

    /// Writes numbers: all of them, or nothing.
    pub fn save_numbers(&self, numbers: &[u64]) -> Result<()> {
        self.write(|to| {
            let mut numbers = numbers.iter();
            numbers.try_for_each(|number| to.put(&number.to_le_bytes()))
        })
    }

    fn write(
        &self,
        put: impl FnOnce(&mut Summed<BufWriter<File>>) -> io::Result<()>,
    ) -> Result<()> {
        let written = || {
            let file = BufWriter::new(File::create(unfinished(&self.file))?);
            let mut to = Summed { file, sum: 0 };
            to.put(HEAD)?;
            to.put(&(self.description.len() as u64).to_le_bytes())?;
            to.put(self.description.as_bytes())?;
            put(&mut to)?;
            to.put(&to.sum.to_le_bytes())?;
            put_in_place(&to.file.into_inner()?, &self.file)
        };
        written().map_err(|error| failed(&self.file, &error))
    }

    /// Removes the state, because the run is done.
    pub fn remove(&self) -> Result<()> {
        fs::remove_file(&self.file).map_err(|error| failed(&self.file, &error))
    }
}
