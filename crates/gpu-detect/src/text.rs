//! What the small files of `/proc/PID` tell of GPUs. How such files are written is [`base::proc`]'s.

use base::proc;

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
        let text = String::from_utf8_lossy(text);
        let state = proc::field(&text, "State").and_then(|state| state.chars().next());
        Self {
            name: proc::field(&text, "Name").unwrap_or_default().to_owned(),
            parent: proc::number_of(&text, "PPid").unwrap_or_default(),
            state,
            // A zombie has no memory either, but it had.
            kernel: proc::field(&text, "VmSize").is_none() && state != Some('Z'),
        }
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
    let text = String::from_utf8_lossy(text);
    let places = || proc::memberships(&text);
    let unified = places().find(|place| place.is_unified && place.path != "/");
    let chosen = unified.or_else(|| places().max_by_key(|place| place.path.len()));
    chosen.map_or("", |place| place.path).to_owned()
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

    proptest! {
        #[test]
        fn no_bytes_make_them_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = (Status::parse(&bytes), environment(&bytes), cgroup(&bytes), unix_sockets(&bytes));
        }

        #[test]
        fn no_text_makes_them_panic(text in "((Name|PPid|State|NCCL_X|0|7):?=?[ -~\\x00]{0,20}\n){0,8}") {
            let bytes = text.as_bytes();
            let _ = (Status::parse(bytes), environment(bytes), cgroup(bytes), unix_sockets(bytes));
        }
    }
}
