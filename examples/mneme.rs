//! Mneme's service: "which of these keys did I see in the last minutes?", over HTTP.
//!
//! ```text
//! ./build.sh serve                                                  # in one terminal
//! cargo run --release --example mneme -- --periods 3 --length 60    # in another
//! curl "http://localhost:9000?key=abcd"                             # in a third
//! ```
//!
//! `GET /?key=a&key=b` looks keys up, `POST` inserts them. A POST's keys may also be a form in its body, which
//! `curl -d key=a` sends. Both answer `{"found":["a"],"missing":["b"]}`. A POST answers with the state just before it:
//! if workers insert a key at once, exactly one of them reads that it was missing.
//!
//! The service keeps no state. The filter is a key of the server, whose window forgets a key when its last insertion is
//! `periods` periods old. Any number of these services may share it.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::get};
use clap::Parser;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::{ctrl_c, unix};

/// The largest number of keys in a request: the server does nothing else while it looks them up.
const MAX_KEYS: usize = 1000;

/// The largest size of a body, about that of a URL here.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Remembers keys for some periods, over HTTP.
#[derive(Parser)]
struct Options {
    /// Number of periods that a key is remembered for, including the current one
    #[arg(long, default_value_t = 3)]
    periods: u32,
    /// Length of a period, in seconds
    #[arg(long, default_value = "60", value_parser = seconds)]
    length: Duration,
    /// Number of keys expected in a period
    #[arg(long, default_value_t = 100_000)]
    size: u64,
    /// Share of never inserted keys that are found all the same
    #[arg(long, default_value_t = 0.01)]
    error_rate: f64,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:9000")]
    listen: String,
    /// The server with the module
    #[arg(long, default_value = "redis://127.0.0.1:6379/")]
    server: String,
    /// The filter's key on the server
    #[arg(long, default_value = "mneme")]
    key: String,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().map_err(|_| "not a number")?;
    Duration::try_from_secs_f64(number).map_err(|e| e.to_string())
}

#[derive(Clone)]
struct Service {
    server: ConnectionManager,
    key: String,
    reserve: redis::Cmd,
}

impl Service {
    async fn connect(options: &Options) -> redis::RedisResult<Self> {
        // Few retries and a short timeout: clients should learn soon that the server is down, and decide to retry.
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(2)
            .set_response_timeout(Some(Duration::from_secs(5)));
        let client = redis::Client::open(options.server.as_str())?;
        let mut reserve = redis::cmd("BF.RESERVE");
        reserve
            .arg(&options.key)
            .arg(options.error_rate)
            .arg(options.size)
            .arg("WINDOW")
            .arg(u64::try_from(options.length.as_millis()).unwrap_or(u64::MAX))
            .arg("PERIODS")
            .arg(options.periods)
            .arg("NX");
        let mut service = Self {
            server: ConnectionManager::new_with_config(client, config).await?,
            key: options.key.clone(),
            reserve,
        };
        let created: Option<String> = service.reserve.query_async(&mut service.server).await?;
        if created.is_none() {
            eprintln!(
                "{} exists already, and keeps its periods, size and rate",
                service.key
            );
        }
        Ok(service)
    }

    async fn ask(mut self, keys: Vec<String>) -> Result<Json<Value>, Fault> {
        let mut command = redis::cmd("BF.MEXISTS");
        command.arg(&self.key).arg(&keys);
        let found: Vec<bool> = command.query_async(&mut self.server).await?;
        Ok(answer(keys, found))
    }

    async fn insert(mut self, keys: Vec<String>) -> Result<Json<Value>, Fault> {
        // If the filter was lost, for example because the server keeps no files, this creates it again. BF.MADD alone
        // would create a filter that never forgets.
        let mut commands = redis::pipe();
        commands
            .atomic()
            .add_command(self.reserve)
            .ignore()
            .cmd("BF.MADD")
            .arg(&self.key)
            .arg(&keys);
        let (new,): (Vec<bool>,) = commands.query_async(&mut self.server).await?;
        Ok(answer(keys, new.into_iter().map(|new| !new)))
    }
}

fn answer(keys: Vec<String>, found: impl IntoIterator<Item = bool>) -> Json<Value> {
    let (found, missing): (Vec<_>, Vec<_>) = keys.into_iter().zip(found).partition(|(_, f)| *f);
    let only_keys = |pairs: Vec<(String, bool)>| pairs.into_iter().map(|(key, _)| key).collect();
    let (found, missing): (Vec<_>, Vec<_>) = (only_keys(found), only_keys(missing));
    Json(json!({ "found": found, "missing": missing }))
}

/// An error response.
struct Fault(StatusCode, String);

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<redis::RedisError> for Fault {
    fn from(error: redis::RedisError) -> Self {
        let (is_away, text) = (error.is_io_error(), error.to_string());
        // The first error of a transaction is the reason for its failure.
        let errors = error.into_server_errors();
        let refusal = errors.iter().flat_map(|errors| errors.iter()).next();
        let (is_away, text) = refusal.map_or((is_away, text), |(_, error)| {
            let details = error.details().unwrap_or_default();
            let text = format!("{} {details}", error.code());
            (error.code() == "LOADING", text)
        });
        let status = if is_away {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::BAD_GATEWAY
        };
        Self(status, text)
    }
}

/// Parses the keys of a query and a form, which have the same syntax.
fn keys(query: Option<&str>, form: &[u8]) -> Result<Vec<String>, Fault> {
    let query = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let pairs = query.chain(form_urlencoded::parse(form));
    let keys = pairs.filter(|(name, _)| name == "key");
    let keys: Vec<String> = keys.map(|(_, key)| key.into_owned()).collect();
    let refused = |status, why: &str| Err(Fault(status, why.to_owned()));
    if keys.is_empty() {
        return refused(StatusCode::BAD_REQUEST, "no key");
    }
    if keys.len() > MAX_KEYS {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "too many keys");
    }
    // The parser replaces invalid UTF-8 by this character, which would merge different keys.
    if keys.iter().any(|key| key.contains('\u{FFFD}')) {
        return refused(StatusCode::BAD_REQUEST, "key is not UTF-8");
    }
    Ok(keys)
}

async fn on_get(
    State(service): State<Service>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Fault> {
    service.ask(keys(query.as_deref(), b"")?).await
}

async fn on_post(
    State(service): State<Service>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Fault> {
    let body = body.map_err(|e| Fault(e.status(), e.body_text()))?;
    if !body.is_empty() && !is_form(&headers) {
        let why = "a body is application/x-www-form-urlencoded".to_owned();
        return Err(Fault(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    service.insert(keys(query.as_deref(), &body)?).await
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| {
        kind.trim()
            .eq_ignore_ascii_case("application/x-www-form-urlencoded")
    })
}

async fn serve(options: &Options) -> Result<(), Box<dyn Error>> {
    let service = Service::connect(options).await?;
    let listener = TcpListener::bind(&options.listen).await?;
    let mut terminate = unix::signal(unix::SignalKind::terminate())?;

    let nowhere = || async { Fault(StatusCode::NOT_FOUND, "the path is /".to_owned()) };
    let no_method = || async {
        let why = "GET asks, POST inserts".to_owned();
        Fault(StatusCode::METHOD_NOT_ALLOWED, why)
    };
    let app = Router::new()
        .route("/", get(on_get).post(on_post))
        .fallback(nowhere)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(service);

    println!("listening on http://{}", listener.local_addr()?);
    let end = async move {
        tokio::select! {
            _ = ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    // Requests in progress are still answered.
    axum::serve(listener, app)
        .with_graceful_shutdown(end)
        .await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match serve(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mneme: {error}");
            ExitCode::FAILURE
        }
    }
}
