//! Questions to a gRPC server behind a Unix socket: one message there, one back.
//!
//! gRPC is HTTP/2: a POST to `/SERVICE/METHOD` whose body is a byte (0: not compressed), a length in four bytes and the message, and an answer
//! of the same form, after which trailers say how it went (`grpc-status`, 0 for well). That is all that is needed here, so it is done with the
//! HTTP and the messages that the workspace has already. containerd's own client for Rust (`containerd-client`) makes its messages of containerd's
//! descriptions whenever it is built, which wants a `protoc` on every machine that builds us, and brings a second stack of middleware.

use std::path::Path;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HeaderMap, TE};
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixStream;

/// The largest answer. containerd itself sends 16 MiB at most.
const MOST_BYTES: usize = 16 << 20;
/// The largest set of headers or trailers.
const MOST_HEADERS: u32 = 64 << 10;
/// The bytes before a message.
const FRAME: usize = 5;
/// The server's word for what is not there, and for what it cannot do.
const NOT_FOUND: &str = "5";

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nobody is there, or nobody who speaks HTTP/2.
    Silent(String),
    /// It was asked, and said something that makes no sense.
    Nonsense(String),
    /// It says no.
    Refused(String),
}

/// A connection.
pub(crate) struct Channel(SendRequest<Full<Bytes>>);

impl Channel {
    /// Connects. The connection is served by the runtime that this is called in, and ends with it.
    pub(crate) async fn connect(socket: &Path) -> Result<Self, Trouble> {
        let stream =
            UnixStream::connect(socket).await.map_err(|error| Trouble::Silent(base::explain(&error)))?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .max_header_list_size(MOST_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Trouble::Silent(base::explain(&error)))?;
        tokio::spawn(async move {
            // Whoever waits for an answer hears of it.
            let _ = connection.await;
        });
        Ok(Self(sender))
    }

    /// Asks; `None` if the server says that there is no such thing.
    pub(crate) async fn ask<Q: Message, A: Message + Default>(
        &mut self,
        namespace: &str,
        method: &str,
        question: &Q,
    ) -> Result<Option<A>, Trouble> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://containerd/{method}"))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .header("containerd-namespace", namespace)
            .body(Full::new(framed(question)))
            .map_err(|error| Trouble::Refused(error.to_string()))?;
        let answer =
            self.0.send_request(request).await.map_err(|error| Trouble::Silent(base::explain(&error)))?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MOST_BYTES)
            .collect()
            .await
            .map_err(|error| Trouble::Nonsense(format!("its answer broke off or is too large: {error}")))?;
        // A server that has nothing to say puts its trailers into the headers.
        let trailers = body.trailers().cloned().unwrap_or_default();
        let status = text(&trailers, "grpc-status").or_else(|| text(&head.headers, "grpc-status"));
        match status.as_deref() {
            Some("0") => {}
            Some(NOT_FOUND) => return Ok(None),
            Some(status) => {
                let why = text(&trailers, "grpc-message").or_else(|| text(&head.headers, "grpc-message"));
                return Err(Trouble::Refused(format!("{} ({status})", why.unwrap_or_default())));
            }
            None => return Err(Trouble::Nonsense(format!("HTTP status {} and none of gRPC's", head.status))),
        }
        unframed(&body.to_bytes()).map(Some)
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn framed(message: &impl Message) -> Bytes {
    let length = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(FRAME + message.encoded_len());
    bytes.push(0);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&message.encode_to_vec());
    Bytes::from(bytes)
}

fn unframed<A: Message + Default>(bytes: &[u8]) -> Result<A, Trouble> {
    let nonsense = |why: &str| Trouble::Nonsense(why.to_owned());
    let (head, message) = bytes.split_at_checked(FRAME).ok_or_else(|| nonsense("its answer is too short"))?;
    let [compressed, length @ ..] = head else { return Err(nonsense("its answer is too short")) };
    if *compressed != 0 {
        return Err(nonsense("its answer is compressed, which nobody asked for"));
    }
    let length = <[u8; 4]>::try_from(length).map(u32::from_be_bytes).unwrap_or(u32::MAX);
    if usize::try_from(length).ok() != Some(message.len()) {
        return Err(nonsense("its answer has another length than it says"));
    }
    A::decode(message).map_err(|error| nonsense(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::messages::{GetTask, Tasks};
    use super::*;

    #[test]
    fn a_message_survives_its_frame() {
        let question = GetTask { container_id: "c1".to_owned() };
        let bytes = framed(&question);
        assert_eq!(bytes[..FRAME], [0, 0, 0, 0, 4]);
        assert_eq!(unframed::<GetTask>(&bytes).unwrap(), question);
        for bad in [&bytes[..3], &bytes[..6], &[1, 0, 0, 0, 0][..]] {
            assert!(matches!(unframed::<GetTask>(bad), Err(Trouble::Nonsense(_))));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = unframed::<Tasks>(&bytes);
            let framed = [&[0, 0, 0, 0, u8::try_from(bytes.len()).unwrap()][..], &bytes].concat();
            let _ = unframed::<Tasks>(&framed);
        }
    }
}
