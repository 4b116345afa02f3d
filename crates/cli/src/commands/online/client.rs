//! HTTP on the daemon's Unix socket: one connection for each request.
//!
//! An error of the connection is told in our own words and never kept as a source: a "broken pipe" towards the daemon must
//! not be taken for a reader of our output who went away, which is no failure.

use std::path::{Path, PathBuf};

use anyhow::Result;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::Online;
use crate::error::{CliError, DaemonError};

/// A longer answer is not believed. Streams have no limit.
const LIMIT: usize = 256 << 20;

/// The way to the daemon.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Client {
    socket: PathBuf,
}

/// A request: where to, and with what.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<String>,
    pub(super) last_event: Option<u64>,
}

impl Call {
    pub(in crate::commands) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, last_event: None }
    }

    pub(in crate::commands) fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    pub(in crate::commands) fn post(path: impl Into<String>, body: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_string(body)?;
        Ok(Self { method: Method::POST, body: Some(body), ..Self::get(path) })
    }

    /// The same for a job, to be answered when that has ended.
    pub(in crate::commands) fn until_done(self) -> Self {
        Self { path: format!("{}?wait=true", self.path), ..self }
    }

    /// What is asked, for messages about it.
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn nonsense(&self, detail: impl ToString) -> CliError {
        CliError::Answer { request: self.name(), detail: detail.to_string() }
    }

    fn left(&self) -> CliError {
        CliError::DaemonLeft { request: self.name() }
    }
}

impl Client {
    pub(in crate::commands) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_path_buf() }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends a request. The answer is a success; a refusal has become an error.
    pub(super) async fn send(&self, call: &Call) -> Result<Response<Incoming>> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|source| CliError::NoDaemon { socket: self.socket.clone(), source })?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|_| call.left())?;
        // It ends with the connection; what went wrong is seen by whoever waits for the answer.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let mut request = Request::builder()
            .method(&call.method)
            .uri(&call.path)
            .header(header::HOST, "infinijupd")
            .header(header::ACCEPT, "application/json");
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(id) = call.last_event {
            request = request.header("last-event-id", id);
        }
        let body = Full::new(Bytes::from(call.body.clone().unwrap_or_default()));
        let request = request.body(body)?;
        let response = sender.send_request(request).await.map_err(|error| match error.is_parse() {
            true => call.nonsense(error),
            false => call.left(),
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let bytes = self.collect(call, response).await?;
        let body: api::ErrorBody = serde_json::from_slice(&bytes)
            .map_err(|_| call.nonsense(format!("status {status} without a reason")))?;
        Err(DaemonError(body).into())
    }

    /// The whole answer.
    async fn collect(&self, call: &Call, response: Response<Incoming>) -> Result<Bytes> {
        let body = Limited::new(response.into_body(), LIMIT).collect().await;
        Ok(body
            .map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
                true => call.nonsense("it is too long"),
                false => call.left(),
            })?
            .to_bytes())
    }

    /// The answer to a request.
    pub(in crate::commands) async fn answer<T: DeserializeOwned>(&self, call: &Call) -> Result<T> {
        let response = self.send(call).await?;
        let bytes = self.collect(call, response).await?;
        serde_json::from_slice(&bytes).map_err(|error| call.nonsense(error).into())
    }
}

impl Online<'_> {
    /// The answer to a question.
    pub(in crate::commands) fn get<T: DeserializeOwned>(&self, path: impl Into<String>) -> Result<T> {
        self.runtime.block_on(self.client.answer(&Call::get(path)))
    }

    /// The answer to a request that is no job.
    pub(in crate::commands) fn post<T: DeserializeOwned>(
        &self,
        path: impl Into<String>,
        body: &impl Serialize,
    ) -> Result<T> {
        self.runtime.block_on(self.client.answer(&Call::post(path, body)?))
    }

    /// The answer to a request that something be taken away, if that is no job.
    pub(in crate::commands) fn delete<T: DeserializeOwned>(&self, path: impl Into<String>) -> Result<T> {
        self.runtime.block_on(self.client.answer(&Call::delete(path)))
    }

    /// The answer to a question that is no JSON.
    pub(in crate::commands) fn get_text(&self, path: impl Into<String>) -> Result<String> {
        let call = Call::get(path);
        self.runtime.block_on(async {
            let response = self.client.send(&call).await?;
            let bytes = self.client.collect(&call, response).await?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        })
    }
}

/// `/v1/sessions/NAME`, whatever is in the name.
pub(in crate::commands) fn session_path(session: &str) -> String {
    format!("/v1/sessions/{}", encoded(session))
}

/// `/v1/commits/SNAPSHOT`, however it is said.
pub(super) fn commit_path(snapshot: &str) -> String {
    format!("/v1/commits/{}", encoded(snapshot))
}

/// As part of a path or a query.
pub(in crate::commands) fn encoded(text: &str) -> String {
    let mut out = String::new();
    // A segment of dots alone would be taken for a way up.
    let dots = text.bytes().all(|byte| byte == b'.');
    for byte in text.bytes() {
        let plain =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') || (byte == b'.' && !dots);
        if plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_place_in_the_path() {
        assert_eq!(session_path("my-Kernel_1.2~1"), "/v1/sessions/my-Kernel_1.2~1");
        assert_eq!(session_path("a/../b?c#d e%"), "/v1/sessions/a%2F..%2Fb%3Fc%23d%20e%25");
        assert_eq!(session_path(".."), "/v1/sessions/%2E%2E");
        assert_eq!(session_path("é"), "/v1/sessions/%C3%A9");
    }
}
