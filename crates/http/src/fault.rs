//! Error responses.

use hyper::StatusCode;
use redis::{RedisError, ServerError};

/// The status and the text of an error response.
#[derive(Clone, Debug)]
pub struct Fault(pub StatusCode, pub String);

impl Fault {
    /// Makes a fault of a text.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self(status, text.into())
    }

    /// Returns whether the server failed, not the request.
    pub fn is_of_server(&self) -> bool {
        self.0.is_server_error()
    }
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        let is_away = error.is_io_error();
        let text = error.to_string();
        let errors = error.into_server_errors();
        match errors.as_deref().and_then(<[_]>::first) {
            Some((_, error)) => Self::from(error.clone()),
            None if is_away => {
                let text = format!("no answer from the server: {text}");
                Self(StatusCode::SERVICE_UNAVAILABLE, text)
            }
            None => Self(StatusCode::BAD_GATEWAY, format!("the server: {text}")),
        }
    }
}

impl From<ServerError> for Fault {
    fn from(error: ServerError) -> Self {
        let details = error.details().unwrap_or_default();
        // A server without the module would quote the command, with the keys of other clients.
        let details = details.split(", with args beginning with").next();
        let details = details.unwrap_or_default();
        let status = match error.code() {
            "LOADING" => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self(status, format!("{} {details}", error.code()))
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    #[test]
    fn a_server_that_loads_its_data_is_away() {
        for (reply, status) in [
            ("LOADING the dataset is in memory soon", 503),
            ("OOM command not allowed", 502),
            ("WRONGTYPE a text", 502),
        ] {
            let parsed = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes());
            let Ok(Value::ServerError(error)) = parsed else {
                panic!("{parsed:?}");
            };
            let fault = Fault::from(error);
            assert_eq!((fault.0.as_u16(), &fault.1[..]), (status, reply));
        }
    }
}
