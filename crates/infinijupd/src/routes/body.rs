//! Bodies of requests: bounded before they are read, and all that are being read together too.
//!
//! One layer before all handlers. The length that a request announces is looked at first, and what comes without one is counted
//! while it comes. Also what no handler asks for is read: a body that is left lying breaks the connection under the client, who
//! then never sees the answer. Large bodies wait for their share of a common budget, so that the daemon's memory does not follow
//! from how many connections there are.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body as Stream, Bytes, HttpBody};
use axum::extract::{FromRequest, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::StreamExt;

use crate::backend::Failure;
use crate::checks::bad;
use crate::error::DaemonError;
use crate::fields::understood;
use crate::server::App;

/// The most that a request's body may take. An environment can be 2 MiB, and JSON makes it longer.
const BODY_LIMIT: usize = 8 << 20;
/// The same where it may bring a document.
const DOCUMENT_LIMIT: usize = 64 << 20;
/// The same where nothing is asked for.
const NOTHING_LIMIT: usize = 64 << 10;
/// No longer one waits for the budget.
const SMALL: usize = 64 << 10;
/// All that are being read at once, but for small ones.
const BUDGET: usize = DOCUMENT_LIMIT;
/// How long one may wait for its share, and how long it may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of a body that is refused so much is read away, for so long at most: then its sender has time for the answer.
const LINGER: (usize, Duration) = (16 << 20, Duration::from_secs(1));

/// What documents come with.
const WITH_DOCUMENTS: [&str; 4] = [
    "/v1/sessions/{id}/snapshot",
    "/v1/sessions/{id}/rollback",
    "/v1/sessions/{id}/branch",
    "/v1/sessions/{id}/suspend",
];

/// The budget, in bytes.
pub(crate) fn budget() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(BUDGET))
}

/// A body's share of the budget, kept until the body has been understood.
#[derive(Clone)]
struct Share(#[expect(dead_code, reason = "it is given back when it is dropped")] Arc<OwnedSemaphorePermit>);

/// The layer.
pub(super) async fn bound(State(app): State<App>, request: Request, next: Next) -> Response {
    app.need.now();
    let limit = limit_of(&request);
    let (mut parts, body) = request.into_parts();
    if body.is_end_stream() {
        return next.run(Request::from_parts(parts, Stream::empty())).await;
    }
    let announced = announced(&parts.headers);
    if announced.is_some_and(|length| length > limit) {
        linger(body).await;
        return too_large(limit);
    }
    let length = announced.unwrap_or(limit);
    if length > SMALL {
        match share(&app, length).await {
            Ok(share) => drop(parts.extensions.insert(share)),
            Err(failure) => return failure.into_response(),
        }
    }
    match tokio::time::timeout(PATIENCE, read(body, limit, announced.unwrap_or_default())).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, Stream::from(bytes))).await,
        Ok(Err(Unread::TooLarge)) => too_large(limit),
        Ok(Err(Unread::Broken)) => bad("its body broke off").into_response(),
        Err(_) => bad(format!("its body did not arrive within {} s", PATIENCE.as_secs())).into_response(),
    }
}

fn limit_of(request: &Request) -> usize {
    if [Method::GET, Method::HEAD, Method::DELETE].contains(request.method()) {
        return NOTHING_LIMIT;
    }
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if path.is_some_and(|path| WITH_DOCUMENTS.contains(&path)) { DOCUMENT_LIMIT } else { BODY_LIMIT }
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn share(app: &App, length: usize) -> Result<Share, Failure> {
    let permits = u32::try_from(length).unwrap_or(u32::MAX);
    let waiting = Arc::clone(&app.bodies).acquire_many_owned(permits);
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(Ok(permit)) => Ok(Share(Arc::new(permit))),
        _ => Err(DaemonError::Crowded { what: format!("{BUDGET} bytes of requests are being read") }.into()),
    }
}

enum Unread {
    TooLarge,
    Broken,
}

async fn read(body: Stream, limit: usize, expected: usize) -> Result<Bytes, Unread> {
    let mut bytes = Vec::with_capacity(expected);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Unread::Broken)?;
        if bytes.len() + chunk.len() > limit {
            return Err(Unread::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

async fn linger(body: Stream) {
    let (mut left, time) = LINGER;
    let mut chunks = body.into_data_stream();
    let discard = async {
        while let Some(Ok(chunk)) = chunks.next().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(time, discard).await;
}

/// The rest of the body is not read, so this is the last answer on its connection.
fn too_large(limit: usize) -> Response {
    let mut response = DaemonError::TooLarge { limit }.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The body of a request. None at all is as good as `{}`.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let _share = request.extensions().get::<Share>().cloned();
        let bytes =
            Bytes::from_request(request, state).await.map_err(|rejection| bad(rejection.body_text()))?;
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        Ok(Self(understood(bytes)?))
    }
}
