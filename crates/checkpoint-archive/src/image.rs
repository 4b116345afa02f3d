//! An archive that is the one layer of an OCI image, in a tar file of the image's layout: `oci-layout`, `index.json` and everything else
//! under its digest in `blobs/sha256`. `podman save --format oci-archive` and `skopeo copy` write it.
//!
//! The parts come in any order, so they are kept aside until the index was read. Each is compared with the digest that it is called by, and
//! only what the index leads to is used: one manifest, one configuration, one layer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::error::{ArchiveError, Result, shown};
use crate::json;
use crate::limits::Limits;
use crate::stream::{read_failed, small};
use crate::tar::{Entry, Kind, TarReader, parts};

pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Parts that an image of one layer can have, and then some.
const MOST_PARTS: usize = 64;
/// Texts that an image can have about itself.
const MOST_ANNOTATIONS: usize = 200;

/// Keeps the parts of an image aside.
pub trait Blobs {
    /// Keeps one. Its name is 64 hex digits.
    fn put(&mut self, name: &str, content: &mut dyn Read) -> Result<()>;

    /// Gives back one that was put.
    fn open(&mut self, name: &str) -> Result<Box<dyn Read>>;
}

/// Keeps them in memory, for archives that are known to be small.
#[derive(Debug, Default)]
pub struct MemoryBlobs(BTreeMap<String, Vec<u8>>);

impl Blobs for MemoryBlobs {
    fn put(&mut self, name: &str, content: &mut dyn Read) -> Result<()> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(read_failed)?;
        self.0.insert(name.to_owned(), bytes);
        Ok(())
    }

    fn open(&mut self, name: &str) -> Result<Box<dyn Read>> {
        let bytes = self.0.get(name).cloned().unwrap_or_default();
        Ok(Box::new(io::Cursor::new(bytes)))
    }
}

/// Where the archive is.
pub(crate) struct InImage {
    pub(crate) layer: String,
    pub(crate) annotations: BTreeMap<String, String>,
}

fn wrong(detail: impl Into<String>) -> ArchiveError {
    ArchiveError::Image { detail: detail.into() }
}

/// Whether an archive that begins with this entry is an image.
pub(crate) fn is_part(entry: &Entry, limits: &Limits) -> Result<bool> {
    let parts = entry.parts(limits)?;
    Ok(matches!(parts.as_slice(), [b"oci-layout"] | [b"index.json"] | [b"blobs", ..]))
}

/// Collects the parts, and follows the index to the layer.
pub(crate) fn read<R: Read>(
    tar: &mut TarReader<R>,
    first: Entry,
    limits: &Limits,
    blobs: &mut dyn Blobs,
) -> Result<InImage> {
    let mut sizes = BTreeMap::new();
    let mut named = BTreeMap::new();
    let mut next = Some(first);
    while let Some(entry) = next {
        let path = parts(&entry.path, entry.kind == Kind::Directory, limits)?;
        match (&entry.kind, path.as_slice()) {
            (Kind::Directory, [] | [b"blobs"] | [b"blobs", b"sha256"]) => {}
            (Kind::File, [name @ (b"oci-layout" | b"index.json")]) => {
                let bytes = small(tar, entry.size, limits.json)?;
                let name = String::from_utf8_lossy(name).into_owned();
                if named.insert(name.clone(), bytes).is_some() {
                    return Err(ArchiveError::Twice { name });
                }
            }
            (Kind::File, [b"blobs", b"sha256", digest]) => {
                let digest =
                    hexadecimal(digest).ok_or_else(|| wrong("a part of it is not called by its digest"))?;
                if sizes.insert(digest.clone(), entry.size).is_some() {
                    return Err(ArchiveError::Twice { name: shown(&entry.path) });
                }
                keep(tar, &digest, blobs)?;
            }
            (Kind::File | Kind::Directory, _) => {
                return Err(ArchiveError::Name { name: shown(&entry.path), why: "no image has such a file" });
            }
            (other, _) => return Err(ArchiveError::Kind { name: shown(&entry.path), what: other.name() }),
        }
        if sizes.len() + named.len() > MOST_PARTS {
            return Err(ArchiveError::TooMuch { what: "parts of an image", most: MOST_PARTS as u64 });
        }
        next = tar.next_entry()?;
    }
    let mut image = Image { limits, blobs, sizes };
    image.follow(&named)
}

/// Compares a part with its digest while it is kept.
fn keep<R: Read>(tar: &mut TarReader<R>, digest: &str, blobs: &mut dyn Blobs) -> Result<()> {
    let mut hashing = Hashing { input: tar, hasher: Sha256::new() };
    blobs.put(digest, &mut hashing)?;
    // What the keeper did not want to read belongs to it all the same.
    io::copy(&mut hashing, &mut io::sink()).map_err(read_failed)?;
    if hex(&hashing.hasher.finalize()) != digest {
        return Err(wrong(format!("part {digest} is not what its digest says")));
    }
    Ok(())
}

struct Hashing<R> {
    input: R,
    hasher: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

struct Image<'a> {
    limits: &'a Limits,
    blobs: &'a mut dyn Blobs,
    sizes: BTreeMap<String, u64>,
}

impl Image<'_> {
    fn follow(&mut self, named: &BTreeMap<String, Vec<u8>>) -> Result<InImage> {
        let member = |name: &'static str| named.get(name).ok_or(ArchiveError::Missing { name });
        let layout = parse("oci-layout", member("oci-layout")?)?;
        if layout.get("imageLayoutVersion").and_then(Value::as_str) != Some("1.0.0") {
            return Err(wrong("it has a layout that is not known"));
        }
        let index = parse("index.json", member("index.json")?)?;
        let manifests = list(&index, "manifests")?;
        let [manifest] = manifests else {
            return Err(wrong(format!("it has {} manifests, and one is expected", manifests.len())));
        };
        let manifest = self.json(manifest, &[MANIFEST])?;
        let configuration = manifest.get("config").ok_or_else(|| wrong("it has no configuration"))?;
        self.json(configuration, &[CONFIG])?;
        let layers = list(&manifest, "layers")?;
        let [layer] = layers else {
            return Err(wrong(format!("it has {} layers, and a checkpoint has one", layers.len())));
        };
        let (layer, _) =
            self.descriptor(layer, &[LAYER, &format!("{LAYER}+gzip"), &format!("{LAYER}+zstd")])?;
        Ok(InImage { layer, annotations: annotations(manifest.get("annotations"))? })
    }

    /// Where a descriptor leads, and how large that is.
    fn descriptor(&self, descriptor: &Value, media_types: &[&str]) -> Result<(String, u64)> {
        let text = |key: &str| descriptor.get(key).and_then(Value::as_str).unwrap_or_default();
        if !media_types.contains(&text("mediaType")) {
            return Err(wrong(format!("a part is of type {}", shown(text("mediaType").as_bytes()))));
        }
        let digest = text("digest").strip_prefix("sha256:").and_then(|hex| hexadecimal(hex.as_bytes()));
        let digest = digest.ok_or_else(|| wrong("a digest that is none"))?;
        let size = self.sizes.get(&digest).ok_or_else(|| wrong(format!("part {digest} is not there")))?;
        if descriptor.get("size").and_then(Value::as_u64) != Some(*size) {
            return Err(wrong(format!("part {digest} has another size than is said")));
        }
        Ok((digest, *size))
    }

    fn json(&mut self, descriptor: &Value, media_types: &[&str]) -> Result<Value> {
        let (digest, size) = self.descriptor(descriptor, media_types)?;
        let bytes = small(&mut self.blobs.open(&digest)?, size, self.limits.json)?;
        parse(&digest, &bytes)
    }
}

fn parse(name: &str, bytes: &[u8]) -> Result<Value> {
    json::parse(bytes).map_err(|detail| ArchiveError::Unreadable { name: name.to_owned(), detail })
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value]> {
    value
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .ok_or_else(|| wrong(format!("it has no list of {key}")))
}

fn annotations(value: Option<&Value>) -> Result<BTreeMap<String, String>> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(BTreeMap::new()) };
    let members = value.as_object().ok_or_else(|| wrong("its annotations are none"))?;
    if members.len() > MOST_ANNOTATIONS {
        return Err(ArchiveError::TooMuch { what: "annotations", most: MOST_ANNOTATIONS as u64 });
    }
    let text = |(key, value): (&String, &Value)| {
        let value = value.as_str().ok_or_else(|| wrong("an annotation is no text"))?;
        Ok((key.clone(), value.to_owned()))
    };
    members.iter().map(text).collect()
}

fn hexadecimal(digits: &[u8]) -> Option<String> {
    let is_digest =
        digits.len() == 64 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_digest.then(|| String::from_utf8_lossy(digits).into_owned())
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
