//! A real S3 server on loopback: SeaweedFS, from the Python of the tests.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::live::Unable;

const PROGRAM: &str = "/opt/infinijup/test-venv/bin/weed";
const BUCKET: &str = "snapshots";

/// What a client of the server needs in its environment.
pub(super) const KEYS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "bench"), ("AWS_SECRET_ACCESS_KEY", "not-a-secret"), ("AWS_REGION", "us-east-1")];

/// The server, until it is dropped.
pub(super) struct Server {
    process: Child,
    dir: PathBuf,
    port: u16,
}

impl Server {
    /// Starts it with an empty bucket, below `dir`.
    pub(super) fn start(dir: &Path) -> Result<Self> {
        if !Path::new(PROGRAM).exists() {
            bail!(Unable(format!("it needs {PROGRAM}: run scripts/test-python.sh")));
        }
        let dir = dir.join("seaweed");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        let identity = json!({ "identities": [{
            "name": "bench", "actions": ["Admin", "Read", "Write", "List"],
            "credentials": [{ "accessKey": KEYS[0].1, "secretKey": KEYS[1].1 }],
        }]});
        let config = dir.join("s3.json");
        fs::write(&config, identity.to_string())?;
        let [master, volume, filer, port] = [free_port()?, free_port()?, free_port()?, free_port()?];
        let log = fs::File::create(dir.join("log"))?;
        let process = Command::new(PROGRAM)
            .arg(logs_in(&dir))
            .args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"])
            .args(["-volume.max=60", "-master.volumeSizeLimitMB=256"])
            .arg(format!("-dir={}", dir.display()))
            .arg(format!("-master.port={master}"))
            .arg(format!("-volume.port={volume}"))
            .arg(format!("-filer.port={filer}"))
            .arg(format!("-s3.port={port}"))
            // Catalogues of tables, on ports that another server on this machine may have.
            .args(["-s3.port.iceberg=0", "-s3.port.lance=0"])
            .arg(format!("-s3.config={}", config.display()))
            .env_clear()
            .env("HOME", &dir)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start SeaweedFS")?;
        let mut server = Self { process, dir, port };
        server.make_bucket(master, filer)?;
        Ok(server)
    }

    /// One that was made while the server did not listen yet is there at the next try.
    fn make_bucket(&mut self, master: u16, filer: u16) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            ensure!(
                self.process.try_wait()?.is_none(),
                "SeaweedFS has ended; see {}",
                self.dir.join("log").display()
            );
            let mut shell = Command::new("timeout")
                .args(["20", PROGRAM])
                .arg(logs_in(&self.dir))
                .args(["shell", &format!("-master=127.0.0.1:{master}"), &format!("-filer=127.0.0.1:{filer}")])
                .env_clear()
                .env("HOME", &self.dir)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut input = shell.stdin.take().context("the shell of SeaweedFS has no input")?;
            // It may have ended already, and says why.
            let _ = input.write_all(format!("s3.bucket.create -name {BUCKET}\n").as_bytes());
            drop(input);
            let output = shell.wait_with_output()?;
            let said =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let made =
                said.iter().any(|text| text.contains("created bucket") || text.contains("already exists"));
            if made && TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "SeaweedFS has no bucket: {}", said.concat());
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// The address of a remote on it.
    pub(super) fn address(&self, prefix: &str) -> String {
        format!("s3+{}/{BUCKET}/{prefix}", self.endpoint())
    }

    /// Where a bare client finds it.
    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// The bucket that is there.
pub(super) const fn bucket() -> &'static str {
    BUCKET
}

impl Drop for Server {
    fn drop(&mut self) {
        // It does not listen to SIGTERM. What is left of it, the next run removes.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Its logs are for everybody to read, and lie in /tmp unless it is told another place.
fn logs_in(dir: &Path) -> String {
    format!("-logdir={}", dir.display())
}

/// A port that nobody has. SeaweedFS takes the one 10,000 above for itself, too. Both are below 32,768, where Linux begins to give ports to
/// whoever asks for any: it takes seconds until SeaweedFS has taken them.
fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let port = 11_000
            + u16::try_from(crate::rng::Rng::of(&[u64::from(std::process::id()), now()]).below(11_000))?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok()
            && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok()
        {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
}
