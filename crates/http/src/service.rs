//! Answers to requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderValue, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use subtle::ConstantTimeEq;
use tokio::time::timeout;

use crate::batches::Queue;
use crate::fault::Fault;
use crate::idempotency::Receipts;
use crate::keys;
use crate::metrics::Metrics;
use crate::options::Options;

/// The largest size of a body, about that of a URL here.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The largest size of a body that is read although it is too large.
const READ_AND_REFUSED_BYTES: u64 = 1 << 20;

type Answer = Response<Full<Bytes>>;

/// What all connections share.
pub struct Service {
    queue: Queue,
    receipts: Receipts,
    /// The metrics.
    pub metrics: Metrics,
    token: Option<String>,
    timeout: Duration,
}

/// The keys of a request, each list in the order of the request.
#[derive(Default, Serialize)]
struct Found {
    found: Vec<String>,
    missing: Vec<String>,
}

impl Service {
    /// Makes a service.
    pub fn new(queue: Queue, metrics: Metrics, options: &Options) -> Self {
        Self {
            queue,
            receipts: Receipts::new(&options.key),
            metrics,
            token: options.token.clone(),
            timeout: options.timeout,
        }
    }

    /// Answers a request, and counts it.
    ///
    /// # Errors
    /// Never: an error is an answer.
    pub async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, Infallible> {
        let start = Instant::now();
        let method = match request.method().as_str() {
            "GET" => "GET",
            "HEAD" => "HEAD",
            "POST" => "POST",
            _ => "other",
        };
        let answer = self.route(request).await.unwrap_or_else(|fault| {
            if fault.is_server_error() {
                self.metrics.server_errors.inc();
            }
            error(&fault)
        });
        self.metrics.count_request(method, answer.status().as_str());
        self.metrics
            .durations
            .observe(start.elapsed().as_secs_f64());
        Ok(answer)
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Answer, Fault> {
        let path = request.uri().path();
        if path != "/health" {
            self.check_token(request.headers())?;
        }
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        match path {
            "/" if is_get => {
                let keys = keys::parse(request.uri().query(), None, b"")?;
                let (keys, found) = self.queue.look_up(keys).await?;
                Ok(self.lists("GET", keys, &found))
            }
            "/" if request.method() == Method::POST => {
                let (head, body) = request.into_parts();
                require_plain(&head.headers)?;
                let body = timeout(self.timeout, body_of(&head.headers, body)).await;
                let late = "the body did not arrive in time";
                let body = body.map_err(|_| Fault::new(StatusCode::REQUEST_TIMEOUT, late))??;
                let kind = head.headers.get(CONTENT_TYPE);
                let keys = keys::parse(head.uri.query(), kind, &body)?;
                let receipt = self.receipts.name(&head.headers, &keys)?;
                let (keys, found) = self.queue.insert(keys, receipt).await?;
                Ok(self.lists("POST", keys, &found))
            }
            "/health" if is_get => match self.queue.check().await {
                Ok(()) => Ok(json(StatusCode::OK, &json!({ "status": "ok" }))),
                // This answer reports the state, so it does not count as a failed request.
                Err(fault) => Ok(error(&Fault::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    fault.text,
                ))),
            },
            "/metrics" if is_get => {
                self.metrics
                    .server_up
                    .set(self.queue.check().await.is_ok().into());
                let text = self.metrics.text().expect("all names are valid");
                Ok(answer(StatusCode::OK, prometheus::TEXT_FORMAT, text))
            }
            "/" | "/health" | "/metrics" => {
                let why = "GET asks, POST to / inserts";
                let mut answer = error(&Fault::new(StatusCode::METHOD_NOT_ALLOWED, why));
                let methods = if path == "/" {
                    "GET, HEAD, POST"
                } else {
                    "GET, HEAD"
                };
                let methods = HeaderValue::from_static(methods);
                answer.headers_mut().insert(ALLOW, methods);
                Ok(answer)
            }
            _ => {
                let why = "the paths are /, /health and /metrics";
                Err(Fault::new(StatusCode::NOT_FOUND, why))
            }
        }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let sent = headers
            .get(AUTHORIZATION)
            .map_or(&b""[..], HeaderValue::as_bytes);
        let (scheme, sent) = sent.split_at(sent.len().min("Bearer ".len()));
        // In constant time, so that no token can be guessed byte by byte.
        if scheme.eq_ignore_ascii_case(b"Bearer ") && sent.ct_eq(token.as_bytes()).into() {
            return Ok(());
        }
        let why = "send the token: Authorization: Bearer TOKEN";
        Err(Fault::new(StatusCode::UNAUTHORIZED, why))
    }

    /// Counts keys, and answers which of them were found.
    fn lists(&self, method: &str, keys: Vec<String>, found: &[bool]) -> Answer {
        self.metrics.count_keys(method, found);
        let mut lists = Found::default();
        for (key, found) in keys.into_iter().zip(found) {
            let list = if *found {
                &mut lists.found
            } else {
                &mut lists.missing
            };
            list.push(key);
        }
        json(StatusCode::OK, &lists)
    }
}

/// Requires that a body is not compressed.
fn require_plain(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            let why = "a body is not compressed: send no Content-Encoding";
            Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
        }
        _ => Ok(()),
    }
}

async fn body_of(headers: &HeaderMap, mut body: Incoming) -> Result<Bytes, Fault> {
    let too_large = || {
        let why = format!("the body has more than {MAX_BODY_BYTES} bytes");
        Fault::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    let declared = body.size_hint().lower();
    if declared > MAX_BODY_BYTES as u64 {
        // The connection ends with a body that is not read, and a client that is still sending may lose the answer. So only those
        // who wait for permission, or declare much more, are answered before they send it.
        let is_sending = declared <= READ_AND_REFUSED_BYTES && !headers.contains_key(EXPECT);
        while is_sending && matches!(body.frame().await, Some(Ok(_))) {}
        return Err(too_large());
    }
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => Err(Fault::new(StatusCode::BAD_REQUEST, error.to_string())),
    }
}

fn error(fault: &Fault) -> Answer {
    let mut answer = json(fault.status, &json!({ "error": fault.text }));
    if fault.status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    answer
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let text = serde_json::to_string(value).expect("all keys are texts");
    answer(status, "application/json", text)
}

fn answer(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
