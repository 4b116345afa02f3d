//! S3, and what speaks like it, through the `object_store` crate.
//!
//! The library is asynchronous and the rest of this crate is not: a remote is worked on by a few threads that wait. So each bucket has a small
//! runtime of its own, and every call here waits for its answer. They must not be called from inside another runtime.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig,
    UpdateVersion,
};

use super::{Address, Condition, Listed, Objects, Put, Version};
use crate::credentials;
use crate::error::{RemoteError, Result};

/// A request takes at most so long; then the connection counts as dead.
const REQUEST: Duration = Duration::from_secs(120);
const CONNECT: Duration = Duration::from_secs(10);

impl Address {
    /// Opens it, with the credentials of the environment, or of Amazon's own file. They are not kept anywhere else.
    pub fn open(&self) -> Result<ObjectStoreBucket> {
        // Fails if one was installed before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut options = ClientOptions::new().with_timeout(REQUEST).with_connect_timeout(CONNECT);
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(&self.bucket);
        if let Some(found) = credentials::from_file() {
            builder = builder.with_access_key_id(found.key_id).with_secret_access_key(found.secret);
            if let Some(token) = found.token {
                builder = builder.with_token(token);
            }
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
            options = options.with_allow_http(endpoint.starts_with("http://"));
        }
        let retry =
            RetryConfig { max_retries: 2, retry_timeout: Duration::from_secs(60), ..Default::default() };
        let store = builder
            .with_client_options(options)
            .with_retry(retry)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .build()
            .map_err(|error| RemoteError::Address { address: self.to_string(), reason: error.to_string() })?;
        ObjectStoreBucket::new(Arc::new(store), &self.prefix)
    }
}

/// A part of a bucket.
#[derive(Debug)]
pub struct ObjectStoreBucket {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    runtime: tokio::runtime::Runtime,
}

impl ObjectStoreBucket {
    /// What lies below `prefix` in this store.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("remote")
            .enable_all()
            .build()
            .map_err(|error| failed("begin", prefix, false)(error.into()))?;
        Ok(Self { store, prefix: prefix.to_owned(), runtime })
    }

    fn path(&self, key: &str) -> Path {
        if self.prefix.is_empty() { Path::from(key) } else { Path::from(format!("{}/{key}", self.prefix)) }
    }

    async fn read(
        &self,
        key: &str,
        range: Option<GetRange>,
        limit: u64,
    ) -> Result<Option<(Vec<u8>, Version)>> {
        let options = GetOptions { range, ..Default::default() };
        let result = match self.store.get_opts(&self.path(key), options).await {
            Ok(result) => result,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(translate("read", key)(error)),
        };
        let version = Version(result.meta.e_tag.clone().unwrap_or_default());
        // Not believed: a server may promise little and send much.
        let mut bytes = Vec::new();
        let mut stream = result.into_stream();
        while let Some(part) = stream.next().await {
            let part = part.map_err(translate("read", key))?;
            if bytes.len() as u64 + part.len() as u64 > limit {
                return Err(RemoteError::damaged(key, format!("is longer than {limit} bytes")));
            }
            bytes.extend_from_slice(&part);
        }
        Ok(Some((bytes, version)))
    }
}

impl Objects for ObjectStoreBucket {
    fn get(&self, key: &str, limit: u64) -> Result<Option<(Vec<u8>, Version)>> {
        self.runtime.block_on(self.read(key, None, limit))
    }

    fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        match self.get_up_to(key, offset, len)? {
            Some(bytes) if (bytes.len() as u64) < len => Err(RemoteError::damaged(key, "ends too early")),
            found => Ok(found),
        }
    }

    fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        if len == 0 {
            return Ok(Some(Vec::new()));
        }
        let range = GetRange::Bounded(offset..offset.saturating_add(len));
        let found = self.runtime.block_on(self.read(key, Some(range), len))?;
        Ok(found.map(|(bytes, _)| bytes))
    }

    fn put(&self, key: &str, bytes: Vec<u8>, condition: &Condition) -> Result<Put> {
        let mode = match condition {
            Condition::Absent => PutMode::Create,
            Condition::Is(version) => {
                PutMode::Update(UpdateVersion { e_tag: Some(version.0.clone()), version: None })
            }
        };
        let path = self.path(key);
        let put = self.store.put_opts(&path, bytes.into(), PutOptions::from(mode));
        match self.runtime.block_on(put) {
            Ok(result) => match result.e_tag {
                Some(e_tag) => Ok(Put::Done(Version(e_tag))),
                None => {
                    Err(RemoteError::Unreliable { broken: "a put was answered without an ETag".to_owned() })
                }
            },
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Put::Refused)
            }
            Err(error) => Err(translate("write", key)(error)),
        }
    }

    fn delete(&self, key: &str) -> Result<()> {
        let path = self.path(key);
        match self.runtime.block_on(self.store.delete(&path)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(translate("delete", key)(error)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let path = self.path(prefix.trim_end_matches('/'));
        let skip = if self.prefix.is_empty() { 0 } else { self.prefix.len() + 1 };
        self.runtime.block_on(async {
            let mut stream = self.store.list(Some(&path));
            let mut all = Vec::new();
            while let Some(meta) = stream.next().await {
                let meta = meta.map_err(translate("list", prefix))?;
                let key = meta.location.as_ref().get(skip..).filter(|key| key.starts_with(prefix));
                all.extend(key.map(|key| Listed { key: key.to_owned(), size: meta.size }));
            }
            Ok(all)
        })
    }
}

fn translate(action: &'static str, key: &str) -> impl FnOnce(object_store::Error) -> RemoteError {
    move |error| match error {
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            RemoteError::Denied { source: error.into() }
        }
        // Cut connections, timeouts and answers 5xx are all of this one kind.
        object_store::Error::Generic { .. } => failed(action, key, true)(error.into()),
        error => failed(action, key, false)(error.into()),
    }
}

fn failed(
    action: &'static str,
    key: &str,
    transient: bool,
) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> RemoteError {
    move |source| RemoteError::Request { action, key: key.to_owned(), transient, source }
}
