//! The connection file: where a kernel listens and the key that signs its messages.
//!
//! Whoever can read it can run code as its owner, so it is written for the owner alone. It appears under its name whole or
//! not at all: a client that waits for it never sees half of it.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::error::{JupyterError, Result};
use crate::file::read_small;

/// The only way of signing that kernels use.
const SCHEME: &str = "hmac-sha256";

/// The five ports of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// Requests.
    pub shell: u16,
    /// What a kernel tells everyone.
    pub iopub: u16,
    /// What a kernel asks the user.
    pub stdin: u16,
    /// Requests that do not wait for a cell: shutdown, debugging.
    pub control: u16,
    /// The heartbeat.
    pub hb: u16,
}

impl Ports {
    /// In the order shell, iopub, stdin, control, heartbeat.
    pub const fn from_array([shell, iopub, stdin, control, hb]: [u16; 5]) -> Self {
        Self { shell, iopub, stdin, control, hb }
    }

    /// In the same order.
    pub const fn to_array(self) -> [u16; 5] {
        [self.shell, self.iopub, self.stdin, self.control, self.hb]
    }
}

/// What a connection file says.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionFile {
    /// The address that the kernel listens on.
    pub ip: IpAddr,
    /// Its ports.
    pub ports: Ports,
    /// The key of its messages' signatures; empty means that they are not signed.
    pub key: String,
    /// The name of its kernelspec; may be empty.
    pub kernel_name: String,
}

/// The key is a secret.
impl std::fmt::Debug for ConnectionFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { ip, ports, key: _, kernel_name } = self;
        let mut out = formatter.debug_struct("ConnectionFile");
        out.field("ip", ip).field("ports", ports).field("kernel_name", kernel_name).finish_non_exhaustive()
    }
}

/// As it is written. Fields that we do not know are ignored: kernels add to it.
#[derive(Serialize, Deserialize)]
struct Raw {
    shell_port: u16,
    iopub_port: u16,
    stdin_port: u16,
    control_port: u16,
    hb_port: u16,
    ip: String,
    key: String,
    transport: String,
    signature_scheme: String,
    #[serde(default)]
    kernel_name: String,
}

impl ConnectionFile {
    /// A new one, with a random key.
    pub fn new(ip: IpAddr, ports: Ports, kernel_name: impl Into<String>) -> Result<Self> {
        Ok(Self { ip, ports, key: random_hex::<32>()?, kernel_name: kernel_name.into() })
    }

    /// The same with other ports, in the order of [`Ports::to_array`]. Where there are fewer than five, the rest stays.
    pub fn with_ports(self, ports: impl IntoIterator<Item = u16>) -> Self {
        let mut all = self.ports.to_array();
        for (port, other) in all.iter_mut().zip(ports) {
            *port = other;
        }
        Self { ports: Ports::from_array(all), ..self }
    }

    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let content = read_small(path).map_err(JupyterError::io("read", path))?;
        Self::parse(&content, path)
    }

    /// Understands the content of the file at `path`, which is named in errors only.
    pub fn parse(content: &[u8], path: &Path) -> Result<Self> {
        let wrong = |detail: String| JupyterError::Connection { path: path.to_path_buf(), detail };
        let raw: Raw = serde_json::from_slice(content).map_err(|error| wrong(error.to_string()))?;
        if raw.transport != "tcp" {
            return Err(JupyterError::Transport { path: path.to_path_buf(), transport: raw.transport });
        }
        if raw.signature_scheme != SCHEME {
            return Err(wrong(format!("signature scheme `{}`, not `{SCHEME}`", raw.signature_scheme)));
        }
        let ip = match raw.ip.as_str() {
            "localhost" => IpAddr::from([127, 0, 0, 1]),
            ip => ip.parse().map_err(|_| wrong(format!("`{ip}` is not an address")))?,
        };
        let all = [raw.shell_port, raw.iopub_port, raw.stdin_port, raw.control_port, raw.hb_port];
        let mut sorted = all;
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair.first() == pair.get(1)) {
            return Err(wrong(format!("port {} stands for two channels", pair.first().unwrap_or(&0))));
        }
        if sorted.first() == Some(&0) {
            return Err(wrong("port 0 is no port".to_owned()));
        }
        Ok(Self { ip, ports: Ports::from_array(all), key: raw.key, kernel_name: raw.kernel_name })
    }

    /// Understands what a snapshot kept of such a file. Clients are led to this machine, whatever a foreign one says.
    pub fn of_snapshot(content: &str) -> Result<Self> {
        let said = Self::parse(content.as_bytes(), Path::new("connection.json"))?;
        Ok(Self { ip: Ipv4Addr::LOCALHOST.into(), ..said })
    }

    /// The file's content.
    pub fn to_json(&self) -> String {
        let raw = Raw {
            shell_port: self.ports.shell,
            iopub_port: self.ports.iopub,
            stdin_port: self.ports.stdin,
            control_port: self.ports.control,
            hb_port: self.ports.hb,
            ip: self.ip.to_string(),
            key: self.key.clone(),
            transport: "tcp".to_owned(),
            signature_scheme: SCHEME.to_owned(),
            kernel_name: self.kernel_name.clone(),
        };
        // Numbers and strings only: there is nothing in it that JSON could not say.
        serde_json::to_string_pretty(&raw).unwrap_or_default() + "\n"
    }

    /// Writes it to `path`, readable by its owner alone, in place of what is there.
    pub fn write(&self, path: &Path) -> Result<()> {
        let fail = |source: std::io::Error| JupyterError::io("write", path)(source);
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", random_hex::<8>()?));
        let beside = Path::new(&name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(beside, flags, Mode::RUSR | Mode::WUSR).map_err(|e| fail(e.into()))?;
        let written = File::from(file).write_all(self.to_json().as_bytes());
        written.and_then(|()| std::fs::rename(beside, path)).map_err(|error| {
            // The first failure is the one to tell.
            let _ = std::fs::remove_file(beside);
            fail(error)
        })
    }
}

/// How a kernel is reached that lives in a box: the file that it is given itself, and the one for clients outside.
pub struct Connection {
    /// For the kernel.
    pub inside: ConnectionFile,
    /// For clients. Its ports are led to those inside.
    pub outside: ConnectionFile,
}

impl Connection {
    /// One on loopback, with a new key. Without ports of its own inside, the kernel has the same there as outside.
    pub fn new(inside: Option<Ports>, outside: Ports, kernel_name: &str) -> Result<Self> {
        let outside = ConnectionFile::new(Ipv4Addr::LOCALHOST.into(), outside, kernel_name)?;
        Ok(Self::leading_to(inside, outside))
    }

    /// The same with the key and the ports of a file that somebody has written for clients.
    pub fn given(inside: Option<Ports>, path: &Path, kernel_name: &str) -> Result<Self> {
        let file = ConnectionFile::read(path)?;
        if file.ip != Ipv4Addr::LOCALHOST {
            let detail = format!("sessions are reached at 127.0.0.1, not at {}", file.ip);
            return Err(JupyterError::Connection { path: path.to_path_buf(), detail });
        }
        Ok(Self::leading_to(inside, ConnectionFile { kernel_name: kernel_name.to_owned(), ..file }))
    }

    fn leading_to(inside: Option<Ports>, outside: ConnectionFile) -> Self {
        let inside = inside.unwrap_or(outside.ports);
        Self { inside: ConnectionFile { ports: inside, ..outside.clone() }, outside }
    }

    /// Each port outside, with the one inside.
    pub fn ports(&self) -> Vec<(u16, u16)> {
        self.outside.ports.to_array().into_iter().zip(self.inside.ports.to_array()).collect()
    }
}

/// `N` random bytes in hex.
pub(crate) fn random_hex<const N: usize>() -> Result<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| JupyterError::NoEntropy { detail: error.to_string() })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn one() -> ConnectionFile {
        ConnectionFile::new(IpAddr::from([127, 0, 0, 1]), Ports::from_array([1, 2, 3, 4, 5]), "python3")
            .unwrap()
    }

    #[test]
    fn a_snapshot_from_elsewhere_leads_clients_to_this_machine() {
        let foreign = ConnectionFile { ip: IpAddr::from([203, 0, 113, 7]), ..one() };
        let here = ConnectionFile::of_snapshot(&foreign.to_json()).unwrap();
        assert_eq!(here, ConnectionFile { ip: IpAddr::from([127, 0, 0, 1]), ..foreign });
        ConnectionFile::of_snapshot("{}").unwrap_err();
    }

    #[test]
    fn what_is_written_can_be_read_and_is_nobody_elses() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("connection.json");
        std::fs::write(&path, "old").unwrap();
        let file = one();
        file.write(&path).unwrap();
        assert_eq!(ConnectionFile::read(&path).unwrap(), file);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
        assert_eq!(file.ports.to_array(), [1, 2, 3, 4, 5]);
        assert_eq!(file.key.len(), 64);
        assert_ne!(file.key, one().key);
        assert!(!format!("{file:?}").contains(&file.key));
        let nowhere = file.write(&directory.path().join("none/x")).unwrap_err();
        assert_eq!(nowhere.code(), "IJ-J001");
    }

    #[test]
    fn both_files_of_a_connection_have_one_key() {
        let (inside, outside) = (Ports::from_array([1, 2, 3, 4, 5]), Ports::from_array([6, 7, 8, 9, 10]));
        let connection = Connection::new(Some(inside), outside, "python3").unwrap();
        assert_eq!(Connection::new(None, outside, "x").unwrap().ports()[0], (6, 6));
        assert_eq!(connection.ports(), [(6, 1), (7, 2), (8, 3), (9, 4), (10, 5)]);
        assert_eq!(connection.inside, ConnectionFile { ports: inside, ..connection.outside.clone() });
        assert!(!connection.inside.key.is_empty());
    }

    #[test]
    fn a_file_of_somebody_elses_is_taken_over_if_it_is_on_loopback() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("connection.json");
        one().write(&path).unwrap();
        let given = Connection::given(None, &path, "ir").unwrap();
        assert_eq!(
            given.outside,
            ConnectionFile { kernel_name: "ir".to_owned(), ..ConnectionFile::read(&path).unwrap() }
        );
        ConnectionFile { ip: IpAddr::from([0, 0, 0, 0]), ..one() }.write(&path).unwrap();
        let refused = Connection::given(None, &path, "ir").map(drop).unwrap_err();
        assert!(refused.to_string().contains("0.0.0.0"), "{refused}");
    }

    #[test]
    fn only_ports_are_other_ones() {
        let file = one();
        let other = file.clone().with_ports([6, 7]);
        assert_eq!(other, ConnectionFile { ports: Ports::from_array([6, 7, 3, 4, 5]), ..file.clone() });
        assert_eq!(file.with_ports([6, 7, 8, 9, 10, 11]).ports.to_array(), [6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_file_that_jupyter_wrote_is_understood() {
        let text = r#"{"shell_port": 57335, "iopub_port": 57336, "stdin_port": 57337, "control_port": 57339,
            "hb_port": 57338, "ip": "127.0.0.1", "key": "b5a4-7", "transport": "tcp", "signature_scheme": "hmac-sha256",
            "kernel_name": "python3", "jupyter_session": "/home/ada/a.ipynb"}"#;
        let file = ConnectionFile::parse(text.as_bytes(), Path::new("x")).unwrap();
        assert_eq!(file.ports, Ports::from_array([57335, 57336, 57337, 57339, 57338]));
        assert_eq!(file.key, "b5a4-7");
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        let text = one().to_json();
        let refused = |from: &str, to: &str| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            ConnectionFile::parse(changed.as_bytes(), Path::new("x")).unwrap_err()
        };
        let ipc = refused("\"tcp\"", "\"ipc\"");
        assert_eq!(ipc.code(), "IJ-J012");
        assert!(ipc.to_string().contains("`ipc`") && ipc.hint().unwrap().contains("same path"));
        assert!(refused("\"hb_port\": 5", "\"hb_port\": 0").to_string().contains("port 0"));
        assert!(refused("\"hb_port\": 5", "\"hb_port\": 4").to_string().contains("port 4 stands for two"));
        for (from, to) in [
            ("\"hb_port\": 5", "\"hb_port\": 70000"),
            ("\"hb_port\"", "\"heart\""),
            ("127.0.0.1", "example.org"),
            ("hmac-sha256", "none"),
            ("{", "["),
        ] {
            assert_eq!(refused(from, to).code(), "IJ-J011", "{to}");
        }
    }
}
