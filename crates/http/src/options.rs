//! Options, by precedence: the command line, two environment variables (`VALKEYBLOOM_HTTP_SERVER` and
//! `VALKEYBLOOM_HTTP_TOKEN`), a TOML file.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use clap::{CommandFactory, Parser};
use valkeybloom_connect::{Tls, without_passwords};

/// The prefix of environment variables.
const PREFIX: &str = "VALKEYBLOOM_HTTP_";

/// The longest timeout. A client that does nothing for a day is gone.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Remembers keys for some periods, over HTTP.
#[derive(Parser)]
#[command(name = "valkeybloom-http", version, args_override_self = true)]
pub struct Options {
    /// TOML file with options: their names without the dashes are its keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Number of periods that a key is remembered for, including the current one
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub periods: u32,
    /// Length of a period, in seconds
    #[arg(long, default_value = "60", value_parser = period)]
    pub length: Duration,
    /// Number of keys expected in a period
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub size: u64,
    /// Share of never inserted keys that are found all the same
    #[arg(long, default_value_t = 0.01, value_parser = share)]
    pub error_rate: f64,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:9000")]
    pub listen: String,
    /// The server with the module; as `VALKEYBLOOM_HTTP_SERVER` in the environment, `ps` does not show its password
    #[arg(long, default_value = "redis://127.0.0.1:6379/")]
    pub server: String,
    /// The filter's key on the server
    #[arg(long, default_value = "mneme")]
    pub key: String,
    /// File with the token that clients have to send, instead of `VALKEYBLOOM_HTTP_TOKEN` in the environment
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    pub tls: Tls,
    /// Largest number of connections; more of them wait
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,
    /// Seconds that a client may take to send a request, may be idle, or may take to read an answer
    #[arg(long, default_value = "60", value_parser = pause)]
    pub timeout: Duration,
    /// Seconds that the server may take to accept a connection and to reply, together
    #[arg(long, default_value = "5", value_parser = pause)]
    pub server_timeout: Duration,
    /// Write a man page and shell completions into a folder, and end
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub pages: Option<PathBuf>,
    /// The token.
    #[arg(skip)]
    pub token: Option<String>,
}

impl Options {
    /// Reads the options of this process. Ends the process for invalid words on the command line, and for `--help`.
    ///
    /// # Errors
    /// What is wrong with a file or a variable of the environment, which is named.
    pub fn read() -> Result<Self, String> {
        // The command line names the file, so it is parsed before the file, and again after it: the last word counts.
        let own = Self::parse_words(env::args_os());
        if own.pages.is_some() {
            return Ok(own);
        }
        let mut words: Vec<_> = env::args_os().take(1).collect();
        if let Some(path) = own.config {
            let text = read(&path)?;
            let table: toml::Table = toml::from_str(&text).map_err(|error| {
                // The whole text of the error would quote the line, which may hold a password.
                let start = error.span().map_or(0, |span| span.start);
                let line = text[..start].matches('\n').count() + 1;
                at(&path, format!("line {line}: {}", error.message()))
            })?;
            for (key, value) in &table {
                let word = word(key, value).map_err(|why| at(&path, format!("{key}: {why}")))?;
                words.push(word.into());
            }
        }
        if let Some(server) = variable("SERVER")? {
            words.push(format!("--server={server}").into());
        }
        words.extend(env::args_os().skip(1));
        let mut options = Self::parse_words(words);
        options.token = options.find_token(own.token_file.is_some())?;
        Ok(options)
    }

    /// Returns the token: that of the environment, unless the command line names a file, or else that of the file.
    fn find_token(&self, is_file_first: bool) -> Result<Option<String>, String> {
        let of_environment = variable("TOKEN")?.filter(|_| !is_file_first);
        let (place, token) = match (of_environment, &self.token_file) {
            (Some(token), _) => (format!("{PREFIX}TOKEN"), token),
            (None, Some(path)) => (
                path.display().to_string(),
                read(path)?.trim_end().to_owned(),
            ),
            (None, None) => return Ok(None),
        };
        if token.is_empty() || !token.bytes().all(|c| c.is_ascii_graphic()) {
            let text = "the token has to be one or more visible ASCII characters";
            return Err(format!("{place}: {text}"));
        }
        Ok(Some(token))
    }

    /// Parses words. Ends the process for invalid ones, which are shown without passwords, and for `--help`.
    fn parse_words(words: impl IntoIterator<Item = OsString>) -> Self {
        Self::try_parse_from(words).unwrap_or_else(|error| without_passwords(error).exit())
    }
}

/// Returns an option of a file as a word of the command line.
fn word(key: &str, value: &toml::Value) -> Result<String, String> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        _ => return Err("not a text or a number".to_owned()),
    };
    let command = Options::command();
    let mut known = command.get_arguments().filter_map(|arg| arg.get_long());
    if matches!(key, "config" | "pages") || !known.any(|known| known == key) {
        return Err("there is no such option".to_owned());
    }
    let word = format!("--{key}={text}");
    match Options::try_parse_from(["", &word]) {
        Ok(_) => Ok(word),
        Err(error) => {
            let reason = std::error::Error::source(&error);
            Err(reason.map_or_else(|| error.to_string(), ToString::to_string))
        }
    }
}

/// Returns the value of an environment variable, without its prefix.
fn variable(name: &str) -> Result<Option<String>, String> {
    let name = format!("{PREFIX}{name}");
    // The error of `env::var` shows the value, which is secret.
    let value = env::var_os(&name).map(OsString::into_string);
    value
        .transpose()
        .map_err(|_| format!("{name} is not UTF-8"))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| at(path, error))
}

fn at(path: &Path, why: impl Display) -> String {
    format!("{}: {why}", path.display())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().map_err(|_| "not a number")?;
    Duration::try_from_secs_f64(number).map_err(|e| e.to_string())
}

fn period(text: &str) -> Result<Duration, String> {
    let length = Some(seconds(text)?).filter(|length| length.as_millis() > 0);
    length.ok_or_else(|| "it has to be 0.001 or more".to_owned())
}

fn pause(text: &str) -> Result<Duration, String> {
    let time = seconds(text)?;
    let is_sensible = !time.is_zero() && time <= LONGEST_TIMEOUT;
    is_sensible.then_some(time).ok_or_else(|| {
        let most = LONGEST_TIMEOUT.as_secs();
        format!("it has to be larger than 0, and {most} at most")
    })
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number")?;
    let share = Some(share).filter(|share| 0.0 < *share && *share < 1.0);
    share.ok_or_else(|| "it has to be between 0 and 1".to_owned())
}
