//! Archives that are the layer of an image, and images that are something else.

use std::collections::BTreeMap;

use checkpoint_archive::tar::{Entry, Kind, TarReader, TarWriter};
use checkpoint_archive::{ArchiveWriter, Compression, ImageWriter, Limits, Member};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{config, read, read_with, spec};

fn layer(compression: Compression) -> (Vec<u8>, checkpoint_archive::Layer) {
    let mut archive = ArchiveWriter::layer(Vec::new(), compression, 7).unwrap();
    archive.bytes(&Member::Config, config().to_string().as_bytes()).unwrap();
    archive.bytes(&Member::Spec, spec().to_string().as_bytes()).unwrap();
    archive.bytes(&Member::image("inventory.img").unwrap(), b"inv").unwrap();
    archive.finish().unwrap()
}

fn image(compression: Compression) -> Vec<u8> {
    let (content, layer) = layer(compression);
    let annotations = BTreeMap::from([("org.criu.checkpoint.container.name".to_owned(), "web".to_owned())]);
    let image = ImageWriter {
        name: "localhost/x:1",
        architecture: "amd64",
        created: "2026-11-18T00:00:00Z",
        annotations: &annotations,
    };
    image.write(Vec::new(), &layer, &mut content.as_slice()).unwrap()
}

#[test]
fn an_image_that_we_write_is_read() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let (found, kept) = read(&image(compression)).unwrap();
        assert_eq!(found.annotations["org.criu.checkpoint.container.name"], "web");
        assert_eq!((found.config_text("name"), kept.0.len()), ("web", 3));
    }
}

/// The parts of an image by their paths.
fn parts(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut tar = TarReader::new(bytes, &Limits::default());
    let mut parts = BTreeMap::new();
    while let Some(entry) = tar.next_entry().unwrap() {
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut tar, &mut content).unwrap();
        if entry.kind == Kind::File {
            parts.insert(String::from_utf8(entry.path).unwrap(), content);
        }
    }
    parts
}

fn packed(parts: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut tar = TarWriter::new(Vec::new());
    for (path, content) in parts {
        tar.put(&Entry::file(path.as_str(), content.len() as u64), &mut content.as_slice()).unwrap();
    }
    tar.finish().unwrap()
}

/// An image whose manifest was changed, with everything above it made to fit.
fn with_manifest(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut parts = parts(&image(Compression::None));
    let mut index: Value = serde_json::from_slice(&parts["index.json"]).unwrap();
    let old = format!("blobs/sha256/{}", &index["manifests"][0]["digest"].as_str().unwrap()[7..]);
    let mut manifest: Value = serde_json::from_slice(&parts.remove(&old).unwrap()).unwrap();
    change(&mut manifest);
    let bytes = manifest.to_string().into_bytes();
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    index["manifests"][0]["digest"] = json!(format!("sha256:{digest}"));
    index["manifests"][0]["size"] = json!(bytes.len());
    parts.insert(format!("blobs/sha256/{digest}"), bytes);
    parts.insert("index.json".to_owned(), index.to_string().into_bytes());
    packed(&parts)
}

#[track_caller]
fn refused(code: &str, bytes: &[u8]) {
    match read(bytes) {
        Ok(_) => panic!("it was read"),
        Err(error) => assert_eq!(error.code(), code, "{error}"),
    }
}

#[test]
fn the_order_of_parts_does_not_matter() {
    // Sorted by name, as others write them: the index comes last but one.
    read(&packed(&parts(&image(Compression::Zstd)))).unwrap();
    read(&with_manifest(|_| {})).unwrap();
}

#[test]
fn parts_that_are_not_what_they_are_called() {
    for at in 0..3 {
        let mut parts = parts(&image(Compression::None));
        let name = parts.keys().filter(|name| name.starts_with("blobs/")).nth(at).unwrap().clone();
        parts.get_mut(&name).unwrap().push(b' ');
        refused("IJ-A013", &packed(&parts));
        parts.remove(&name);
        refused("IJ-A013", &packed(&parts));
    }
    for missing in ["index.json", "oci-layout"] {
        let mut parts = parts(&image(Compression::None));
        parts.remove(missing);
        refused("IJ-A011", &packed(&parts));
    }
}

#[test]
fn images_that_are_no_checkpoints() {
    refused(
        "IJ-A013",
        &with_manifest(|manifest| {
            let layer = manifest["layers"][0].clone();
            manifest["layers"] = json!([layer, layer]);
        }),
    );
    refused("IJ-A013", &with_manifest(|manifest| manifest["layers"] = json!([])));
    refused("IJ-A013", &with_manifest(|manifest| manifest["layers"][0]["mediaType"] = json!("text/html")));
    refused("IJ-A013", &with_manifest(|manifest| manifest["layers"][0]["size"] = json!(1)));
    refused(
        "IJ-A013",
        &with_manifest(|manifest| manifest["layers"][0]["digest"] = json!("sha256:../../etc/passwd")),
    );
    refused("IJ-A013", &with_manifest(|manifest| manifest["config"] = json!({ "mediaType": "x" })));
    refused("IJ-A013", &with_manifest(|manifest| manifest["annotations"] = json!({ "a": 1 })));
    let many: BTreeMap<String, String> =
        (0..1000).map(|number| (number.to_string(), String::new())).collect();
    refused("IJ-A020", &with_manifest(|manifest| manifest["annotations"] = json!(many)));
}

#[test]
fn paths_and_kinds_in_an_image() {
    let with = |entry: Entry| {
        let mut tar = TarWriter::new(Vec::new());
        for (path, content) in parts(&image(Compression::None)) {
            tar.put(&Entry::file(path, content.len() as u64), &mut content.as_slice()).unwrap();
        }
        tar.entry(&entry).unwrap();
        tar.finish().unwrap()
    };
    let name = format!("blobs/sha256/{}", "0".repeat(64));
    refused("IJ-A022", &with(Entry::new(name.clone(), Kind::Symlink(b"/etc/shadow".to_vec()), 0)));
    refused("IJ-A022", &with(Entry::new("index.json", Kind::HardLink(b"oci-layout".to_vec()), 0)));
    refused("IJ-A021", &with(Entry::file("blobs/sha256/../../x", 0)));
    refused("IJ-A021", &with(Entry::file("blobs/md5/x", 0)));
    refused("IJ-A013", &with(Entry::file("blobs/sha256/xyz", 0)));
    refused(
        "IJ-A013",
        &with(Entry::file(name.to_uppercase().replace("BLOBS/SHA256", "blobs/sha256").replace('0', "F"), 0)),
    );
    refused("IJ-A023", &with(Entry::file("oci-layout", 0)));
}

/// A layer that becomes a thousand times as large, in an image that is as large as it looks.
#[test]
fn a_bomb_in_a_layer() {
    let mut archive = ArchiveWriter::layer(Vec::new(), Compression::Zstd, 0).unwrap();
    archive.bytes(&Member::Config, b"{}").unwrap();
    archive.bytes(&Member::image("pages-1.img").unwrap(), &vec![0; 16 << 20]).unwrap();
    let (content, layer) = archive.finish().unwrap();
    let image = ImageWriter { name: "x", architecture: "amd64", created: "", annotations: &BTreeMap::new() };
    let bytes = image.write(Vec::new(), &layer, &mut content.as_slice()).unwrap();
    assert!(bytes.len() < 100_000);
    let limits = Limits { bytes: Some(8 << 20), ..Limits::default() };
    assert_eq!(read_with(&bytes, &limits).unwrap_err().code(), "IJ-A020");
}
