//! Archives with the content of the session's own tmpfs mounts (`/dev`, `/dev/shm`, `/run`).
//!
//! CRIU unpacks them with `tar` as root, so a crafted one could bring device nodes, set-user-id programs or names that lead
//! out of the mount. They are gzip'ed tar; the unpacking is left to `gzip`, run with nothing but the user's rights, and the
//! headers are read here. As everywhere in this module, what is not understood is refused: sparse files and long names
//! in GNU's form are, the extended headers of pax are not (CRIU's `tar` does not write them).
//!
//! A GPU's node is a name and a number, and the number alone says which driver answers. So such a node passes only if this
//! machine has one of the same name with the same number: `nvidia0` that is really a disk is refused, and so is a node whose
//! number belonged to the driver on another machine or before a reboot (`stale_nodes` takes those out beforehand).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::{DeviceNode, User};

use super::mounts::path;

pub(super) const BLOCK: usize = 512;
/// Longer names than the kernel takes are no names.
const LONGEST_NAME: u64 = 4096;
const MOST_MEMBERS: usize = 4 << 20;

/// What is wrong with the archive at `archive`; empty if nothing is. `devices` are the machine's own nodes of GPUs.
pub(super) fn check(archive: &Path, user: &User, devices: &[DeviceNode]) -> Vec<String> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let faults =
        unpack(archive, user, devices).unwrap_or_else(|error| vec![format!("cannot be unpacked ({error})")]);
    faults.into_iter().map(|fault| format!("{name}: {fault}")).collect()
}

fn unpack(archive: &Path, user: &User, devices: &[DeviceNode]) -> io::Result<Vec<String>> {
    let mut command = Command::new("gzip");
    command.arg("-dc").stdin(File::open(archive)?).stdout(Stdio::piped()).stderr(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(user.uid).gid(user.gid);
    }
    let mut child = command.spawn()?;
    let Some(output) = child.stdout.take() else { return Ok(vec!["gave nothing".to_owned()]) };
    let mut faults = Vec::new();
    let read = read(io::BufReader::with_capacity(1 << 20, output), user, devices, &mut faults);
    if let Err(fault) = read {
        faults.push(fault);
        // it may still be writing to a pipe that nobody reads
        child.kill()?;
        child.wait()?;
    } else if !child.wait()?.success() {
        faults.push("is not whole".to_owned());
    }
    Ok(faults)
}

/// Reads a whole tar. `Err` is a fault after which reading on makes no sense.
fn read(
    mut input: impl Read,
    user: &User,
    devices: &[DeviceNode],
    faults: &mut Vec<String>,
) -> Result<(), String> {
    let mut links: BTreeSet<PathBuf> = BTreeSet::new();
    let (mut long_name, mut long_target) = (None, None);
    for _ in 0..MOST_MEMBERS {
        let mut header = [0; BLOCK];
        input.read_exact(&mut header).map_err(|_| "is cut short".to_owned())?;
        if header.iter().all(|byte| *byte == 0) {
            return ends(input);
        }
        let member = Member::read(&header)?;
        if matches!(member.kind, b'L' | b'K') {
            if member.size > LONGEST_NAME {
                return Err("has a name that is too long".to_owned());
            }
            let mut name = vec![0; usize::try_from(padded(member.size)).map_err(|_| "too long")?];
            input.read_exact(&mut name).map_err(|_| "is cut short".to_owned())?;
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            let slot = if member.kind == b'L' { &mut long_name } else { &mut long_target };
            if slot.replace(path(name.get(..end).unwrap_or_default())).is_some() {
                return Err("has two names for one member".to_owned());
            }
            continue;
        }
        let own_name = long_name.take().unwrap_or_else(|| member.name.clone());
        let target = long_target.take().unwrap_or_else(|| member.target.clone());
        faults.extend(member.faults(&own_name, &target, user, devices, &mut links));
        if member.kind == b'S' && header[482] != 0 {
            let mut more = [0; BLOCK];
            loop {
                input.read_exact(&mut more).map_err(|_| "is cut short".to_owned())?;
                if more[504] == 0 {
                    break;
                }
            }
        }
        let content = padded(member.size);
        let skipped = io::copy(&mut input.by_ref().take(content), &mut io::sink())
            .map_err(|error| error.to_string())?;
        if skipped != content {
            return Err("is cut short".to_owned());
        }
    }
    Err("has too many members".to_owned())
}

/// After the end there is padding; something behind it could be read by one and not by the other.
fn ends(mut input: impl Read) -> Result<(), String> {
    let mut rest = [0; BLOCK];
    loop {
        match input.read(&mut rest) {
            Ok(0) => return Ok(()),
            Ok(count) if rest.iter().take(count).all(|byte| *byte == 0) => {}
            Ok(_) => return Err("goes on after its end".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

pub(super) fn padded(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64)
}

pub(super) struct Member {
    pub(super) name: PathBuf,
    target: PathBuf,
    pub(super) kind: u8,
    mode: u64,
    uid: u64,
    pub(super) size: u64,
    device: (u64, u64),
}

impl Member {
    pub(super) fn read(header: &[u8; BLOCK]) -> Result<Self, String> {
        let sum: u64 = header
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) })
            .sum();
        let number = |from: usize, to: usize| number(header.get(from..to).unwrap_or_default());
        if number(148, 156) != Some(sum) {
            return Err("has a damaged header".to_owned());
        }
        if &header[257..265] != b"ustar  \0" {
            return Err("is not in the form that CRIU writes".to_owned());
        }
        let text = |from: usize, to: usize| {
            let bytes = header.get(from..to).unwrap_or_default();
            path(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
        };
        let wrong = || "has a number that cannot be read".to_owned();
        let kind = header[156];
        let has_size = matches!(kind, b'0' | 0 | b'S' | b'L' | b'K');
        Ok(Self {
            name: text(0, 100),
            target: text(157, 257),
            kind,
            mode: number(100, 108).ok_or_else(wrong)?,
            uid: number(108, 116).ok_or_else(wrong)?,
            size: if has_size {
                number(124, 136).filter(|size| *size < 1 << 50).ok_or_else(wrong)?
            } else {
                0
            },
            device: (number(329, 337).unwrap_or(u64::MAX), number(337, 345).unwrap_or(u64::MAX)),
        })
    }

    fn faults(
        &self,
        name: &Path,
        target: &Path,
        user: &User,
        devices: &[DeviceNode],
        links: &mut BTreeSet<PathBuf>,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let shown = name.display();
        let clean: PathBuf = name.components().filter(|part| *part != Component::CurDir).collect();
        let leads_out = |path: &Path| {
            path.components().any(|part| !matches!(part, Component::CurDir | Component::Normal(_)))
                || path.ancestors().skip(1).any(|parent| links.contains(parent))
        };
        if leads_out(&clean) || links.contains(&clean) {
            faults.push(format!("`{shown}` leads out of its mount"));
        }
        match self.kind {
            b'0' | 0 | b'S' | b'5' | b'6' => {}
            b'1' => {
                let clean: PathBuf = target.components().filter(|part| *part != Component::CurDir).collect();
                if leads_out(&clean) || links.contains(&clean) {
                    faults.push(format!("`{shown}` is a second name of something outside"));
                }
            }
            b'2' => {
                links.insert(clean);
            }
            b'3' if matches!(self.device, (1, 3 | 5 | 7 | 8 | 9) | (5, 0 | 2)) => {}
            b'3' if self.is_one_of(&clean, devices) => {}
            b'3' | b'4' => {
                let (major, minor) = self.device;
                faults.push(format!("`{shown}` is the device {major}:{minor}, which no session has"));
            }
            kind => faults.push(format!("`{shown}` is of an unknown kind ({kind})")),
        }
        let is_own = |id: u64, own: u32| id == 0 || id == u64::from(own);
        if !is_own(self.uid, user.uid) {
            faults.push(format!("`{shown}` belongs to user {}", self.uid));
        }
        let sticky_only = self.mode & 0o6000 == 0;
        if !sticky_only && (self.uid != u64::from(user.uid) || self.kind != b'5') {
            faults.push(format!("`{shown}` is a set-user-id or set-group-id program"));
        }
        faults
    }

    /// Whether it is a GPU's node as the machine has it, directly below `/dev`.
    pub(super) fn is_one_of(&self, clean: &Path, devices: &[DeviceNode]) -> bool {
        devices.iter().any(|node| {
            Path::new(&node.name) == clean && self.device == (u64::from(node.major), u64::from(node.minor))
        })
    }
}

/// A number in octal, or in GNU's binary form for large ones.
fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, rest @ ..] = field {
        let (high, low) = rest.split_at(rest.len().saturating_sub(8));
        return high
            .iter()
            .all(|byte| *byte == 0)
            .then(|| low.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)));
    }
    let text = std::str::from_utf8(field).ok()?;
    let text = text.trim_matches(|c: char| c == '\0' || c == ' ');
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn me() -> User {
        User::by_uid(rustix::process::getuid().as_raw()).unwrap()
    }

    /// Packs as CRIU does.
    fn packed(dir: &Path) -> PathBuf {
        let archive = dir.with_extension("tar.gz");
        let done = Command::new("tar")
            .args(["--create", "--gzip", "--sparse", "--numeric-owner", "--format=gnu", "--directory"])
            .arg(dir)
            .arg("--file")
            .arg(&archive)
            .arg(".")
            .status();
        assert!(done.unwrap().success());
        archive
    }

    #[test]
    fn what_a_session_leaves_passes() {
        let dir = tempfile::tempdir().unwrap();
        let content = dir.path().join("content");
        fs::create_dir_all(content.join("deep/er")).unwrap();
        fs::write(content.join("deep/er/file"), vec![7; 70_000]).unwrap();
        fs::write(content.join("n".repeat(200)), b"long name").unwrap();
        std::os::unix::fs::symlink("pts/ptmx", content.join("ptmx")).unwrap();
        let sparse = File::create(content.join("sparse")).unwrap();
        sparse.set_len(1 << 24).unwrap();
        std::os::unix::fs::FileExt::write_at(&sparse, b"x", 1 << 20).unwrap();
        fs::hard_link(content.join("deep/er/file"), content.join("again")).unwrap();
        assert_eq!(check(&packed(&content), &me(), &[]), Vec::<String>::new());
    }

    #[test]
    fn what_only_root_could_make_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let content = dir.path().join("content");
        fs::create_dir(&content).unwrap();
        fs::write(content.join("su"), b"").unwrap();
        fs::set_permissions(content.join("su"), fs::Permissions::from_mode(0o4755)).unwrap();
        let faults = check(&packed(&content), &me(), &[]);
        assert!(faults.iter().any(|fault| fault.contains("set-user-id")), "{faults:?}");
        fs::write(dir.path().join("bad.tar.gz"), b"nonsense").unwrap();
        assert!(!check(&dir.path().join("bad.tar.gz"), &me(), &[]).is_empty());
    }

    /// One header with a right sum, and the end.
    fn one(kind: u8, name: &str, target: &str, device: (&str, &str), uid: &str) -> Vec<u8> {
        let mut header = [0_u8; BLOCK];
        let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
        put(0, name.as_bytes());
        put(100, b"0000666");
        put(108, uid.as_bytes());
        put(116, b"0000000");
        put(124, b"00000000000");
        put(156, &[kind]);
        put(157, target.as_bytes());
        put(257, b"ustar  \0");
        put(329, device.0.as_bytes());
        put(337, device.1.as_bytes());
        put(148, b"        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        header.to_vec()
    }

    fn faults_of(members: &[Vec<u8>]) -> Vec<String> {
        let mut bytes = members.concat();
        bytes.extend([0; 2 * BLOCK]);
        let mut faults = Vec::new();
        if let Err(fault) = read(bytes.as_slice(), &me(), &gpus(), &mut faults) {
            faults.push(fault);
        }
        faults
    }

    /// 195 is 303 in octal, 255 is 377, 511 is 777.
    fn gpus() -> Vec<DeviceNode> {
        [("nvidia0", 195, 0), ("nvidiactl", 195, 255), ("nvidia-uvm", 511, 0)]
            .map(|(name, major, minor)| DeviceNode { name: name.to_owned(), major, minor })
            .to_vec()
    }

    #[test]
    fn nodes_of_gpus_only_as_this_machine_has_them() {
        let own = [
            one(b'3', "./nvidia0", "", ("303", "0"), "0"),
            one(b'3', "./nvidiactl", "", ("303", "377"), "0"),
            one(b'3', "./nvidia-uvm", "", ("777", "0"), "0"),
        ];
        assert_eq!(faults_of(&own), Vec::<String>::new());
        for (member, number) in [
            // a disk, and as a block device too
            (one(b'3', "./nvidia0", "", ("10", "0"), "0"), "8:0"),
            (one(b'4', "./nvidia0", "", ("303", "0"), "0"), "195:0"),
            // a GPU that this machine does not have, under its own name and under another's
            (one(b'3', "./nvidia1", "", ("303", "1"), "0"), "195:1"),
            (one(b'3', "./nvidia0", "", ("303", "1"), "0"), "195:1"),
            // a number that the driver had before a reboot
            (one(b'3', "./nvidia-uvm", "", ("373", "0"), "0"), "251:0"),
            // the right number in another place or under another name
            (one(b'3', "./shm/nvidia0", "", ("303", "0"), "0"), "195:0"),
            (one(b'3', "./gpu", "", ("303", "0"), "0"), "195:0"),
        ] {
            let faults = faults_of(&[member]);
            let words = format!("is the device {number}, which no session has");
            assert!(faults.iter().any(|fault| fault.contains(&words)), "{faults:?} has no `{words}`");
        }
    }

    #[test]
    fn devices_owners_and_ways_out() {
        let none = ("", "");
        assert_eq!(faults_of(&[one(b'3', "./null", "", ("1", "3"), "0")]), Vec::<String>::new());
        let refused = |members: &[Vec<u8>], words: &str| {
            let faults = faults_of(members);
            assert!(faults.iter().any(|fault| fault.contains(words)), "{faults:?} has no `{words}`");
        };
        refused(&[one(b'3', "./mem", "", ("1", "1"), "0")], "1:1");
        refused(&[one(b'4', "./sda", "", ("10", "0"), "0")], "8:0");
        refused(&[one(b'0', "./x", "", none, "1777777")], "belongs to user");
        refused(&[one(b'0', "../x", "", none, "0")], "leads out");
        refused(&[one(b'0', "/x", "", none, "0")], "leads out");
        refused(&[one(b'2', "./l", "/etc", none, "0"), one(b'0', "./l/passwd", "", none, "0")], "leads out");
        refused(&[one(b'1', "./h", "../../etc/shadow", none, "0")], "second name");
        refused(&[one(b'x', "./h", "", none, "0")], "unknown kind");
        let mut damaged = one(b'0', "./x", "", none, "0");
        damaged[0] = b'y';
        refused(&[damaged], "damaged");
    }
}
