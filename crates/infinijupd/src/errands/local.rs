//! A client of the daemon inside the daemon: requests through the routes, without a socket.

use api::ErrorBody;
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use crate::error::DaemonError;
use crate::operations::Failure;
use crate::routes::router;
use crate::server::App;

/// Larger answers are given to nobody here.
const ANSWER_BYTES: usize = 8 << 20;

/// The routes.
pub(super) struct Local {
    routes: TowerToHyperService<Router>,
}

impl Local {
    pub(super) fn new(app: &App) -> Self {
        Self { routes: TowerToHyperService::new(router(app.clone())) }
    }

    /// Asks.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Box<ErrorBody>> {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = Request::builder().method(method).uri(path).body(body).map_err(bug)?;
        let response = self.routes.call(request).await.map_err(bug)?;
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), ANSWER_BYTES).await.map_err(bug)?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(bug);
        }
        Err(serde_json::from_slice(&bytes).unwrap_or_else(bug))
    }

    /// Begins a job, and waits for its result.
    pub(super) async fn job(&self, path: &str, body: Value) -> Result<Value, Box<ErrorBody>> {
        let path = format!("{path}?wait=true");
        let mut job = self.ask(Method::POST, &path, Some(body)).await?;
        Ok(job.get_mut("result").map(Value::take).unwrap_or_default())
    }
}

fn bug(error: impl std::fmt::Display) -> Box<ErrorBody> {
    Failure::from(DaemonError::Bug { detail: format!("a request of our own: {error}") }).body
}
