//! Error responses.

use hyper::StatusCode;
use redis::{RedisError, ServerError};
use valkeybloom_near::conversation;

/// An error response.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The status of the response.
    pub status: StatusCode,
    /// The reason, for people.
    pub text: String,
}

impl Fault {
    /// Creates a fault with a status and a text.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, text }
    }

    /// Returns whether the status is that of a server error, not one of the request.
    pub fn is_server_error(&self) -> bool {
        self.status.is_server_error()
    }
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        let is_unreachable = error.is_io_error();
        let text = error.to_string();
        let text = conversation::without_page(&text);
        let errors = error.into_server_errors();
        match errors.as_deref().and_then(<[_]>::first) {
            Some((_, error)) => Self::from(error.clone()),
            None if is_unreachable => {
                let text = format!("no answer from the server: {text}");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
            }
            None => Self::new(StatusCode::BAD_GATEWAY, format!("the server: {text}")),
        }
    }
}

impl From<ServerError> for Fault {
    fn from(error: ServerError) -> Self {
        // A server without the module quotes the command, with the keys of other clients.
        let details = conversation::without_arguments(error.details().unwrap_or_default());
        // The others, such as READONLY and OOM, last until somebody changes something.
        let status = match error.code() {
            "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "NOREPLICAS"
            | "MISCONF" => StatusCode::SERVICE_UNAVAILABLE,
            "ERR" if details.starts_with("max number of clients reached") => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        let text = format!("{} {details}", error.code());
        Self::new(status, text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::{ErrorKind, Value};

    use super::*;

    #[test]
    fn errors_of_the_connection_say_whether_there_was_an_answer() {
        let broken = RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        let refused = RedisError::from((ErrorKind::AuthenticationFailed, "no password"));
        for (error, status, text) in [
            (broken, 503, "no answer from the server: broken pipe"),
            (
                refused,
                502,
                "the server: no password - AuthenticationFailed",
            ),
        ] {
            let fault = Fault::from(error);
            assert_eq!((fault.status.as_u16(), &fault.text[..]), (status, text));
        }
    }

    #[test]
    fn a_server_that_cannot_answer_now_is_unavailable() {
        let unknown = "ERR unknown command 'BF.MEXISTS'";
        let quoted = format!("{unknown}, with args beginning with: 'a key of others' ");
        for (reply, status, text) in [
            ("LOADING the dataset is in memory soon", 503, None),
            ("BUSY a script runs", 503, None),
            ("MASTERDOWN Link with MASTER is down", 503, None),
            ("CLUSTERDOWN Hash slot not served", 503, None),
            ("TRYAGAIN", 503, None),
            ("NOREPLICAS Not enough good replicas to write.", 503, None),
            ("READONLY You can't write against a replica.", 502, None),
            ("MISCONF Errors writing to the AOF file", 503, None),
            ("OOM command not allowed", 502, None),
            ("ERR max number of clients reached", 503, None),
            ("WRONGTYPE a text", 502, None),
            (&quoted, 502, Some(unknown)),
        ] {
            let parsed = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes());
            let Ok(Value::ServerError(error)) = parsed else {
                panic!("{parsed:?}");
            };
            let fault = Fault::from(error);
            let expected = (status, text.unwrap_or(reply));
            assert_eq!((fault.status.as_u16(), &fault.text[..]), expected);
        }
    }
}
