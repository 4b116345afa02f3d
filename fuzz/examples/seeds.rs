//! Writes the first inputs of each fuzz target's corpus: `cargo run --example seeds` in `fuzz/`.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use cas_core::archive::Follow;
use cas_core::crypto::{KdfCost, Unlock};
use cas_core::memory::{PageSource, Region};
use cas_core::pack::{PackReader, TRAILER_LEN};
use cas_core::packs::{LocalPacks, PackBytes, Packs};
use cas_core::progress::Silent;
use cas_core::reach::NoReferences;
use cas_core::refs::{Expected, RefChange};
use cas_core::{Encryption, Kind, OpenOptions, Store};

struct Pages;

impl PageSource for Pages {
    fn regions(&self) -> Vec<Region> {
        vec![Region { start: 0x7f00_0000_3000, len: 40 * 4096 }]
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        for (n, page) in buffer.chunks_mut(4096).enumerate() {
            let number = address / 4096 + n as u64;
            page.fill(if number % 7 == 0 { 0 } else { u8::try_from(number % 251).unwrap() });
        }
        Ok(())
    }
}

fn seed(target: &str, name: &str, bytes: &[u8]) {
    let directory = Path::new("corpus").join(target);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(name), bytes).unwrap();
}

/// Requests to the GPU helper, without the zeroes that the target puts behind them.
fn gpu_helper() {
    use checkpoint_cuda::GpuUuid;
    use checkpoint_cuda::helper::message::{Answer, Refusal, Request};
    let pair = (GpuUuid::from_bytes([1; 16]), GpuUuid::from_bytes([2; 16]));
    for (name, request) in [
        ("thread", Request::Thread),
        ("lock", Request::Lock { timeout_ms: 9000 }),
        ("restore", Request::Restore { pairs: vec![pair, pair] }),
        ("unlock", Request::Unlock),
    ] {
        let bytes = request.bytes().unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        seed("gpu_helper", name, &bytes[..=used]);
    }
    seed("gpu_helper", "answer", &Answer::Refused(Refusal::OtherUser).bytes());
}

/// Lists of pages: two runs in the file beside it, and what a parent claims.
fn page_lists() {
    let directory = tempfile::tempdir().unwrap();
    memory_path::parent::write_parent(directory.path(), [memory_path::Task(300)]).unwrap();
    let claim = fs::read(directory.path().join("pagemap-300.img")).unwrap();
    seed("page_lists", "claim", &claim);
    let entry = |address: u8, flags: u8| [8, 0, 0, 0, 0x08, address, 0x10, 1, 0x20, flags, 0x28, 1];
    let mut list = claim[..8].to_vec();
    list.extend([2, 0, 0, 0, 0x08, 1]);
    for (address, flags) in [(0x00, 4), (0x20, 1), (0x40, 6)] {
        // 0x80 and a second byte make whole pages of these.
        let mut entry = entry(0x80, flags).to_vec();
        entry[0] = 9;
        entry.insert(6, 0x20 + address);
        list.extend(entry);
    }
    seed("page_lists", "three", &list);
}

/// The first byte says what the rest is.
fn remote() {
    let write = format!(r#""write":"{}1","before":[]"#, "0".repeat(31));
    let of = |digit: &str, length: usize| digit.repeat(length);
    let text =
        |name: &str, what: u8, text: String| seed("remote", name, &[&[what], text.as_bytes()].concat());
    text("address", 0, "s3+https://s3.example.org/bucket/a".to_owned());
    let segment = format!(
        r#"{{"name":"{}","level":0,"entries":1,"length":103,"tail":58,"hash":"{}","first":"{}","last":"{}"}}"#,
        of("5", 32),
        of("6", 64),
        of("0", 40),
        of("f", 40)
    );
    let condemned = format!(r#"{{"key":"packs/{}","generation":2,"at":5}}"#, of("7", 32));
    text(
        "root",
        2,
        format!(
            r#"{{"version":1,"domain":"DOMAIN","sealed":false,"generation":3,"segments":[{segment}],"condemned":[{condemned}],{write}}}"#
        ),
    );
    text("ref", 3, format!(r#"{{"name":"threads/main","target":"{}",{write}}}"#, of("8", 64)));
    text("ref-elsewhere", 3, format!(r#"{{"name":"threads/../../x","target":null,{write}}}"#));
    let refs = r#"["threads/main","../x"]"#;
    let lease = r#""generation":1,"renewed":5,"revoked":false"#;
    text("lease", 4, format!(r#"{{"writer":"{}",{lease},"refs":{refs},{write}}}"#, of("9", 32)));
    text("key", 5, format!(r#"{{"generation":1,"keyring":"494a4b4559524e47",{write}}}"#));
    let entry: Vec<u8> = (0..20).chain([0x33; 16]).chain([0, 0, 0, 0, 100, 0, 0, 0, 40]).collect();
    let tail = [&b"IJSEG\r\n\0"[..], &[1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0], &[0; 36], &[0xff; 2]].concat();
    seed("remote", "tail", &[&[1], &tail[..]].concat());
    seed("remote", "segment", &[&[6, 1, 0], &entry[..], &tail].concat());
}

/// Both forms, each compression, and files in a tar file.
fn checkpoint_archive() {
    use checkpoint_archive::tar::{Entry, Kind, TarWriter};
    use checkpoint_archive::{ArchiveWriter, Compression, ImageWriter, Member};
    let mut files = TarWriter::new(Vec::new());
    files.entry(&Entry::directory("./")).unwrap();
    files.put(&Entry::file("tmp/a", 3), &mut &b"abc"[..]).unwrap();
    files.entry(&Entry::new("tmp/b", Kind::HardLink(b"tmp/a".to_vec()), 0o600)).unwrap();
    let mut long = Entry::new("l".repeat(120), Kind::Symlink(b"/etc".to_vec()), 0o777);
    long.xattrs = vec![(b"user.x".to_vec(), b"y".to_vec())];
    files.entry(&long).unwrap();
    files.entry(&Entry::new("null", Kind::Char(1, 3), 0o666)).unwrap();
    let files = files.finish().unwrap();
    seed("checkpoint_archive", "files", &files);
    for (name, how) in
        [("plain", Compression::None), ("gzip", Compression::Gzip), ("zstd", Compression::Zstd)]
    {
        let mut archive = ArchiveWriter::layer(Vec::new(), how, 0).unwrap();
        let spec = br#"{"annotations":{"io.container.manager":"libpod"},"mounts":[{"source":"/"}],"hooks":{"prestart":[{"path":"/x"}]}}"#;
        archive.bytes(&Member::Spec, spec).unwrap();
        archive.bytes(&Member::Config, br#"{"id":"00","name":"web","cdiDevices":["a/b=c"]}"#).unwrap();
        archive.bytes(&Member::Deleted, br#"["/a/b"]"#).unwrap();
        archive.bytes(&Member::Layer, &files).unwrap();
        archive.bytes(&Member::volume("v").unwrap(), &files).unwrap();
        archive.bytes(&Member::image("inventory.img").unwrap(), b"i").unwrap();
        let (file, layer) = archive.finish().unwrap();
        seed("checkpoint_archive", name, &file);
        let annotations = [("org.criu.checkpoint.container.name".to_owned(), "web".to_owned())].into();
        let image =
            ImageWriter { name: "x:1", architecture: "amd64", created: "", annotations: &annotations };
        seed(
            "checkpoint_archive",
            &format!("image-{name}"),
            &image.write(Vec::new(), &layer, &mut &file[..]).unwrap(),
        );
    }
    seed("checkpoint_archive", "json", br#"{"a":[1,-2,0.5,"x",null,{"b":{}}]}"#);
}

fn main() {
    gpu_helper();
    checkpoint_archive();
    page_lists();
    remote();
    let directory = tempfile::tempdir().unwrap();
    let unlock = Unlock::Passphrase("correct horse".to_owned().into());
    let encryption = Encryption { unlocks: vec![unlock], cost: KdfCost::for_tests() };
    for (name, encryption) in [("plain", None), ("sealed", Some(&encryption))] {
        let root = directory.path().join(name);
        let store = Store::init(&root, encryption, OpenOptions::default()).unwrap();
        let transaction = store.write(&[]).unwrap();
        let source: Arc<dyn PageSource> = Arc::new(Pages);
        let (map, _) = transaction.put_memory(&source, None, &Silent).unwrap();
        let text: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        let blob = transaction.put_blob(&mut &text[..], &Silent).unwrap();
        let change = RefChange { name: "threads/main".into(), expected: Expected::Any, new: Some(map.id) };
        transaction.commit(&[change]).unwrap();
        seed("text_files", &format!("format-{name}"), &fs::read(root.join("format")).unwrap());
        seed("text_files", &format!("ref-{name}"), &fs::read(root.join("refs/threads/main")).unwrap());
        if let Ok(keyring) = fs::read(root.join("keyring")) {
            seed("keyring", name, &keyring);
        }
        let layout = cas_core::layout::Layout::new(&root);
        for (n, pack) in LocalPacks::below(&root).list().unwrap().iter().enumerate() {
            let bytes = fs::read(layout.pack(pack)).unwrap();
            seed("pack", &format!("header-{name}-{n}"), &bytes[..64]);
            seed("pack", &format!("entry-{name}-{n}"), &bytes[64..136]);
            seed("pack", &format!("trailer-{name}-{n}"), &bytes[bytes.len() - TRAILER_LEN..]);
            let records = PackReader::new(PackBytes::of_file(&layout.pack(pack)).unwrap())
                .unwrap()
                .footer(pack)
                .unwrap();
            let last = records.last().unwrap();
            let footer = last.offset as usize + 72 + last.entry.stored_len as usize;
            seed("pack", &format!("footer-{name}-{n}"), &bytes[footer..bytes.len() - TRAILER_LEN]);
            if bytes.len() < 200_000 {
                seed("salvage", &format!("{name}-{n}"), &bytes);
            }
        }
        let mut objects = Vec::new();
        store
            .catalogue()
            .for_each_object(&mut |id, location| {
                objects.push((*id, location.kind));
                Ok(())
            })
            .unwrap();
        for (id, kind) in objects {
            let target = match kind {
                Kind::MAP_LEAF | Kind::MAP_NODE => "map",
                Kind::CHUNK_LIST => "chunk_list",
                _ => continue,
            };
            seed(target, &id.short(), &store.get(kind, &id).unwrap());
        }
        for (root, kind) in [(map.id, "map"), (blob.id, "blob")] {
            let mut out = Vec::new();
            store.export(&root, Follow::Strong, &NoReferences, &mut out, &Silent).unwrap();
            if out.len() < 100_000 {
                seed("archive", &format!("{kind}-{name}"), &out);
            }
        }
    }
    for entry in fs::read_dir("../crates/manifest/tests/fixtures/v1").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            seed("manifest_objects", path.file_stem().unwrap().to_str().unwrap(), &fs::read(&path).unwrap());
        }
    }
}
