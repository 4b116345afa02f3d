//! Where a remote is, as people write it.

use crate::error::{RemoteError, Result};

/// Where a remote is: `s3://BUCKET/PREFIX`, or `s3+https://HOST/BUCKET/PREFIX` for another server than Amazon's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    pub(super) endpoint: Option<String>,
    pub(super) bucket: String,
    pub(super) prefix: String,
}

impl Address {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong =
            |reason: &str| RemoteError::Address { address: text.to_owned(), reason: reason.to_owned() };
        if text.len() > 1024 || text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err(wrong("it has spaces in it, or is too long"));
        }
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| wrong("it begins with s3:// or s3+https://"))?;
        let (endpoint, rest) = match scheme {
            "s3" => (None, rest),
            "s3+https" | "s3+http" => {
                let (host, rest) = rest.split_once('/').ok_or_else(|| wrong("the bucket is missing"))?;
                if host.is_empty() || host.contains('@') {
                    return Err(wrong("it needs a host, without a name or password"));
                }
                let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
                if scheme == "s3+http" && !matches!(name, "127.0.0.1" | "localhost" | "[::1]") {
                    return Err(wrong(
                        "without encryption on the way only this machine may be named: use s3+https://",
                    ));
                }
                (Some(format!("{}://{host}", scheme.trim_start_matches("s3+"))), rest)
            }
            _ => return Err(wrong("it begins with s3:// or s3+https://")),
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if bucket.len() < 3 || bucket.len() > 63 || !bucket.chars().all(plain) {
            return Err(wrong("the bucket's name has 3 to 63 letters, digits, `.`, `_` and `-`"));
        }
        let good = |part: &str| !part.is_empty() && part != "." && part != ".." && part.chars().all(plain);
        if !prefix.is_empty() && !prefix.split('/').all(good) {
            return Err(wrong("the prefix is made of letters, digits, `.`, `_` and `-`, with `/` between"));
        }
        Ok(Self { endpoint, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.endpoint {
            None => write!(f, "s3://")?,
            Some(endpoint) => write!(f, "s3+{endpoint}/")?,
        }
        write!(f, "{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in [
            "s3://bucket",
            "s3://bucket/a/b",
            "s3+https://s3.example.org/bucket/a",
            "s3+http://127.0.0.1:9000/bucket",
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn addresses_that_hide_something_are_refused() {
        for text in [
            "bucket",
            "file:///etc",
            "s3://",
            "s3://ab",
            "s3://bucket/../other",
            "s3://bucket/a//b",
            "s3://bucket/%2e%2e",
            "s3+https://user:secret@host/bucket",
            "s3+http://example.org/bucket",
            "s3+https://host",
            "s3://buc ket",
        ] {
            assert!(matches!(Address::parse(text), Err(RemoteError::Address { .. })), "{text}");
        }
    }
}
