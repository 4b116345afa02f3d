//! The small files of `/proc/PID`.

use crate::seen::is_telling;

/// What `/proc/PID/status` says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// The name, at most 15 characters; the kernel escapes newlines in it.
    pub name: String,
    /// The parent.
    pub parent: i32,
    /// A letter: `R`, `S`, `Z` …
    pub state: Option<char>,
    /// Whether the kernel itself runs it: it has no memory of its own.
    pub kernel: bool,
}

impl Status {
    /// Reads the file.
    pub fn parse(text: &[u8]) -> Self {
        let mut status = Self { kernel: true, ..Self::default() };
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let value = String::from_utf8_lossy(line[colon + 1..].trim_ascii());
            match &line[..colon] {
                b"Name" => status.name = value.into_owned(),
                b"PPid" => status.parent = value.parse().unwrap_or_default(),
                b"State" => status.state = value.chars().next(),
                b"VmSize" => status.kernel = false,
                _ => {}
            }
        }
        // A zombie has no memory either, but it had.
        status.kernel &= status.state != Some('Z');
        status
    }
}

/// The variables of `/proc/PID/environ` that tell something of GPUs.
pub fn environment(text: &[u8]) -> Vec<(String, String)> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text.split(|byte| *byte == 0)
        .filter_map(|entry| {
            let equals = entry.iter().position(|byte| *byte == b'=')?;
            is_telling(&entry[..equals]).then(|| (lossy(&entry[..equals]), lossy(&entry[equals + 1..])))
        })
        .collect()
}

/// The process's place in the cgroup hierarchy, from `/proc/PID/cgroup`: the unified one, or else the longest of the others.
pub fn cgroup(text: &[u8]) -> String {
    let lines = || text.split(|byte| *byte == b'\n');
    // `id:controllers:path`; the unified hierarchy is number 0 and names no controllers.
    let path = |line| <[u8]>::splitn(line, 3, |byte| *byte == b':').nth(2);
    let unified = lines().filter(|line| line.starts_with(b"0::")).find_map(path).filter(|path| *path != b"/");
    let chosen = unified.or_else(|| lines().filter_map(path).max_by_key(|path| path.len()));
    String::from_utf8_lossy(chosen.unwrap_or_default()).into_owned()
}

/// A named socket of `/proc/PID/net/unix`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnixSocket {
    /// Its inode, as in the link `socket:[inode]`.
    pub inode: u64,
    /// Its name; `@` stands for the zero byte of an abstract one.
    pub name: String,
}

/// The named sockets of `/proc/PID/net/unix`.
pub fn unix_sockets(text: &[u8]) -> Vec<UnixSocket> {
    // Num RefCount Protocol Flags Type St Inode Path
    text.split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
            let inode = str::from_utf8(fields.nth(6)?).ok()?.parse().ok()?;
            let name = String::from_utf8_lossy(fields.next()?).into_owned();
            Some(UnixSocket { inode, name })
        })
        .collect()
}

/// The numbers in `/proc/PID/task/TID/children`.
pub fn children(text: &[u8]) -> Vec<i32> {
    text.split(u8::is_ascii_whitespace)
        .filter_map(|number| str::from_utf8(number).ok()?.parse().ok())
        .filter(|pid| *pid > 0)
        .collect()
}

/// The parent in `/proc/PID/stat`, which is cheaper to ask for than `status`.
pub fn parent(text: &[u8]) -> Option<i32> {
    // `pid (name) state parent …`; the name may hold spaces and parentheses.
    let after = text.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = text[after..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    str::from_utf8(fields.nth(1)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_status() {
        let status = Status::parse(b"Name:\tpython 3\nState:\tS (sleeping)\nPPid:\t17\nVmSize:\t  512 kB\n");
        let expected = Status { name: "python 3".to_owned(), parent: 17, state: Some('S'), kernel: false };
        assert_eq!(status, expected);
        assert!(Status::parse(b"Name:\tkworker/0:1\nState:\tI (idle)\nPPid:\t2\n").kernel);
        assert!(!Status::parse(b"Name:\tsh\nState:\tZ (zombie)\nPPid:\t2\n").kernel);
    }

    #[test]
    fn an_environment() {
        let text = b"HOME=/root\0NCCL_DEBUG=INFO\0CUDA_MPS_PIPE_DIRECTORY=/tmp/a=b\0NCCL_\0";
        let expected = [("NCCL_DEBUG", "INFO"), ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/a=b")];
        assert_eq!(environment(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn cgroups_of_both_kinds() {
        assert_eq!(cgroup(b"0::/user.slice/a:b\n"), "/user.slice/a:b");
        assert_eq!(cgroup(b"4:memory:/docker/f00\n1:name=systemd:/x\n0::/\n"), "/docker/f00");
        assert_eq!(cgroup(b""), "");
    }

    #[test]
    fn sockets_with_names() {
        let text = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            ffff8f0a3c5d1400: 00000002 00000000 00010000 0005 01 31337 @cuda-uvmfd-4026531836-4242\n\
            ffff8f0a3c5d1800: 00000003 00000000 00000000 0001 03 31338\n";
        let expected = UnixSocket { inode: 31337, name: "@cuda-uvmfd-4026531836-4242".to_owned() };
        assert_eq!(unix_sockets(text), [expected]);
    }

    #[test]
    fn numbers_of_children() {
        assert_eq!(children(b"12 13 \n"), [12, 13]);
        assert_eq!(children(b""), [0; 0]);
    }

    #[test]
    fn the_parent_stands_after_a_wild_name() {
        assert_eq!(parent(b"12 (a) R 99 ) S 7 12 12 0\n"), Some(7));
        assert_eq!(parent(b"12 (a) S"), None);
        assert_eq!(parent(b"12"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_them_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = (Status::parse(&bytes), environment(&bytes), cgroup(&bytes), unix_sockets(&bytes), children(&bytes), parent(&bytes));
        }

        #[test]
        fn no_text_makes_them_panic(text in "((Name|PPid|State|NCCL_X|0|7):?=?[ -~\\x00]{0,20}\n){0,8}") {
            let bytes = text.as_bytes();
            let _ = (Status::parse(bytes), environment(bytes), cgroup(bytes), unix_sockets(bytes), children(bytes), parent(bytes));
        }
    }
}
