//! Sealing bytes under one key: nonce, ciphertext, tag.

use std::fmt;

use chacha20poly1305::{AeadInOut, KeyInit, Tag, XChaCha20Poly1305, XNonce};

use super::Secret;
use crate::error::{Result, StoreError};
use crate::fsio::fill_random;

const NONCE_LEN: usize = 24;
const TAG_LEN: usize = 16;

/// How much longer sealed bytes are than what they hold.
pub const SEAL_OVERHEAD: usize = NONCE_LEN + TAG_LEN;

/// Sealed bytes do not open: another key, another AAD, or changed bytes. Which of them cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sealed bytes do not open with this key")]
pub struct OpenFailed;

/// The key of one pack. It is wiped when dropped.
#[derive(Clone)]
pub struct PackKey(XChaCha20Poly1305);

impl fmt::Debug for PackKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PackKey(..)")
    }
}

impl PackKey {
    pub(super) fn new(key: &Secret) -> Self {
        Self(cipher(key))
    }

    /// Appends `plain` to `out`, sealed: [`SEAL_OVERHEAD`] bytes longer. It opens only with the same `aad`, which is
    /// not stored. Nothing is appended on failure.
    pub fn seal(&self, aad: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
        seal(&self.0, aad, plain, out)
    }

    /// Appends what `sealed` holds to `out`. Nothing is appended on failure.
    pub fn open(&self, aad: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), OpenFailed> {
        open(&self.0, aad, sealed, out)
    }
}

pub(super) fn cipher(key: &Secret) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.bytes().into())
}

pub(super) fn seal(cipher: &XChaCha20Poly1305, aad: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut nonce = [0; NONCE_LEN];
    fill_random(&mut nonce)?;
    // All at once: growing later would leave plaintext behind in the old allocation.
    out.reserve(plain.len().saturating_add(SEAL_OVERHEAD));
    let start = out.len();
    out.extend_from_slice(&nonce);
    out.extend_from_slice(plain);
    let body = &mut out[start + NONCE_LEN..];
    match cipher.encrypt_inout_detached(&XNonce::from(nonce), aad, body.into()) {
        Ok(tag) => {
            out.extend_from_slice(&tag);
            Ok(())
        }
        Err(_) => {
            out.truncate(start);
            Err(StoreError::Invalid {
                what: format!("{} bytes are too many to seal in one piece", plain.len()),
            })
        }
    }
}

pub(super) fn open(
    cipher: &XChaCha20Poly1305,
    aad: &[u8],
    sealed: &[u8],
    out: &mut Vec<u8>,
) -> std::result::Result<(), OpenFailed> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(OpenFailed)?;
    let (ciphertext, tag) = rest.split_last_chunk::<TAG_LEN>().ok_or(OpenFailed)?;
    let start = out.len();
    out.extend_from_slice(ciphertext);
    // The tag is checked before anything is decrypted: what is cut off on failure is still ciphertext.
    let body = &mut out[start..];
    cipher.decrypt_inout_detached(&XNonce::from(*nonce), aad, body.into(), &Tag::from(*tag)).map_err(|_| {
        out.truncate(start);
        OpenFailed
    })
}
