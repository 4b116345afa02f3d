//! What other people's processes make the kernel write into `/proc`: mappings, links, names, environments. The input is one such file,
//! read by every reader; each path in it is judged as well.

use base::proc::{self, Mapping, Stat};
use gpu_detect::object::Object;
use gpu_detect::text;

pub(crate) fn run(bytes: &[u8]) {
    for (line, path) in proc::with_file(bytes) {
        assert!(line.ends_with(path));
        let _ = Object::of(path);
        if let Some(mapping) = Mapping::parse(line) {
            assert!(mapping.start < mapping.end);
            let _ = (mapping.file(), mapping.range());
            // What was read can be written and read again.
            let written = format!(
                "{:x}-{:x} {} {:x} 00:05 {} ",
                mapping.start,
                mapping.end,
                mapping.permissions_text(),
                mapping.offset,
                mapping.inode
            );
            if mapping.permissions.iter().all(u8::is_ascii_graphic) {
                let again = Mapping::parse(written.as_bytes()).unwrap();
                assert_eq!(
                    (again.start, again.end, again.offset),
                    (mapping.start, mapping.end, mapping.offset)
                );
            }
        }
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        let _ = Object::of(line);
    }
    let _ = (
        text::Status::parse(bytes),
        text::environment(bytes),
        text::cgroup(bytes),
        text::unix_sockets(bytes),
    );
    let _ = (Stat::parse(bytes), Stat::parent_in(bytes));
    let text = String::from_utf8_lossy(bytes);
    let _ =
        (proc::numbers(&text).count(), proc::memberships(&text).count(), proc::MachineMemory::parse(&text));
    let _ = proc::mounts_in(&text).filter_map(|mount| mount.super_option("upperdir")).count();
}
