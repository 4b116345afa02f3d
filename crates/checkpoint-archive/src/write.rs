//! An archive, written in either form.
//!
//! Members are written in the order in which they are given; readers want the directory `checkpoint` to be there as such. An image is the
//! same tar file as a layer: it has to be whole before its digest is known, so it is written to a file first, and then into the image.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::image::{CONFIG, INDEX, LAYER, MANIFEST, hex};
use crate::members::{IMAGES, Member, VOLUMES};
use crate::stream::{Compression, Compressor};
use crate::tar::{Entry, TarWriter};

/// Writes the members of an archive.
#[derive(Debug)]
pub struct ArchiveWriter<W: Write> {
    tar: TarWriter<Hashed<Compressor<Hashed<W>>>>,
    compression: Compression,
    /// Seconds since 1970 of every member.
    time: i64,
    directories: Vec<&'static str>,
}

/// What a finished archive is called as a layer of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    /// SHA-256 of the file.
    pub digest: String,
    /// SHA-256 of what it decompresses to.
    pub plain_digest: String,
    /// Bytes of the file.
    pub size: u64,
    compression: Compression,
}

impl<W: Write> ArchiveWriter<W> {
    /// A new archive. Its members get this time, in seconds since 1970.
    pub fn new(out: W, compression: Compression, time: i64) -> io::Result<Self> {
        Self::hashed(out, compression, time, false)
    }

    /// One that is to become a layer of an image.
    pub fn layer(out: W, compression: Compression, time: i64) -> io::Result<Self> {
        Self::hashed(out, compression, time, true)
    }

    fn hashed(out: W, compression: Compression, time: i64, hash: bool) -> io::Result<Self> {
        let compressor = Compressor::new(Hashed::new(out, hash), compression)?;
        let tar = TarWriter::new(Hashed::new(compressor, hash));
        Ok(Self { tar, compression, time, directories: Vec::new() })
    }

    /// One member with so many bytes.
    pub fn member(&mut self, member: &Member, size: u64, content: &mut dyn Read) -> io::Result<()> {
        match member {
            Member::Image(_) => self.directory(IMAGES)?,
            Member::Volume(_) => self.directory(VOLUMES)?,
            _ => {}
        }
        let entry = Entry { mtime: (self.time, 0), ..Entry::file(member.to_string(), size) };
        self.tar.put(&entry, content)
    }

    /// A member that is in memory.
    pub fn bytes(&mut self, member: &Member, bytes: &[u8]) -> io::Result<()> {
        self.member(member, bytes.len() as u64, &mut &bytes[..])
    }

    fn directory(&mut self, name: &'static str) -> io::Result<()> {
        if self.directories.contains(&name) {
            return Ok(());
        }
        self.directories.push(name);
        self.tar.entry(&Entry { mtime: (self.time, 0), ..Entry::directory(name) })
    }

    /// Ends it. The digests are those of the file if it was begun as a layer.
    pub fn finish(self) -> io::Result<(W, Layer)> {
        let plain = self.tar.finish()?;
        let plain_digest = plain.digest();
        let file = plain.out.finish()?;
        let layer =
            Layer { digest: file.digest(), plain_digest, size: file.bytes, compression: self.compression };
        Ok((file.out, layer))
    }
}

/// Counts, and hashes if it is asked to.
struct Hashed<W> {
    out: W,
    hasher: Option<Sha256>,
    bytes: u64,
}

impl<W> std::fmt::Debug for Hashed<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hashed").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<W> Hashed<W> {
    fn new(out: W, hash: bool) -> Self {
        Self { out, hasher: hash.then(Sha256::new), bytes: 0 }
    }

    fn digest(&self) -> String {
        self.hasher.as_ref().map(|hasher| hex(&hasher.clone().finalize())).unwrap_or_default()
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes.get(..written).unwrap_or_default());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the image around a layer.
#[derive(Clone, Debug)]
pub struct ImageWriter<'a> {
    /// What the image is called where it is loaded: `localhost/NAME:TAG`.
    pub name: &'a str,
    /// Of the processes: `amd64`, `arm64`.
    pub architecture: &'a str,
    /// When it was made, as RFC 3339 has it.
    pub created: &'a str,
    /// What it says about itself.
    pub annotations: &'a BTreeMap<String, String>,
}

impl ImageWriter<'_> {
    /// The layout of the image as a tar file. `content` is the layer's file.
    pub fn write<W: Write>(&self, out: W, layer: &Layer, content: &mut dyn Read) -> io::Result<W> {
        let media_type = match layer.compression {
            Compression::None => LAYER.to_owned(),
            Compression::Gzip => format!("{LAYER}+gzip"),
            Compression::Zstd => format!("{LAYER}+zstd"),
        };
        let configuration = bytes(&json!({
            "created": self.created,
            "architecture": self.architecture,
            "os": "linux",
            "config": {},
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", layer.plain_digest)] },
            "history": [{ "created": self.created, "created_by": "infinijup export --checkpoint-image" }],
        }))?;
        let layer_descriptor = json!({
            "mediaType": media_type,
            "digest": format!("sha256:{}", layer.digest),
            "size": layer.size,
        });
        let manifest = bytes(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &configuration),
            "layers": [layer_descriptor],
            "annotations": self.annotations,
        }))?;
        let mut pointer = descriptor(MANIFEST, &manifest);
        let tag = self.name.rsplit(':').next().unwrap_or_default();
        pointer["annotations"] =
            json!({ "org.opencontainers.image.ref.name": tag, "io.containerd.image.name": self.name });
        let index = bytes(&json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [pointer] }))?;
        let layout = bytes(&json!({ "imageLayoutVersion": "1.0.0" }))?;

        let mut tar = TarWriter::new(out);
        for (name, content) in [("oci-layout", &layout), ("index.json", &index)] {
            tar.put(&file(name.to_owned(), content.len() as u64), &mut content.as_slice())?;
        }
        for directory in ["blobs", "blobs/sha256"] {
            tar.entry(&Entry { mode: 0o755, ..Entry::directory(directory) })?;
        }
        for part in [&manifest, &configuration] {
            let name = format!("blobs/sha256/{}", digest(part));
            tar.put(&file(name, part.len() as u64), &mut part.as_slice())?;
        }
        tar.put(&file(format!("blobs/sha256/{}", layer.digest), layer.size), content)?;
        tar.finish()
    }
}

fn file(name: String, size: u64) -> Entry {
    Entry { mode: 0o644, ..Entry::file(name, size) }
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": format!("sha256:{}", digest(content)), "size": content.len() })
}

fn bytes(value: &Value) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}
