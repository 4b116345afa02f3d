//! Events in a real Redis.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use infinijupd::redis::Address;
use serde_json::Value;

use crate::client::Daemon;

/// A Redis of the test's own, on a socket in a directory of its own. Ends with this.
struct Redis {
    process: Child,
    directory: tempfile::TempDir,
}

impl Redis {
    fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let redis = Self::spawn(directory.path())?;
        Some(Self { process: redis, directory })
    }

    fn spawn(directory: &Path) -> Option<Child> {
        let started = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--requirepass",
                "s3cret",
                "--unixsocket",
            ])
            .arg(directory.join("redis.sock"))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        match started {
            Ok(process) => Some(process),
            Err(error) => {
                let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
                assert!(!required, "redis-server cannot be run: {error}");
                println!("skipped: a test with a real Redis because redis-server cannot be run: {error}");
                None
            }
        }
    }

    fn address(&self) -> Address {
        Address::parse(&format!("unix://:s3cret@{}", self.directory.path().join("redis.sock").display()))
            .unwrap()
    }

    fn end(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn start_again(&mut self) {
        self.process = Self::spawn(self.directory.path()).unwrap();
    }

    /// What is in this user's stream.
    fn events(&self) -> Vec<Value> {
        let output = Command::new("redis-cli")
            .arg("-s")
            .arg(self.directory.path().join("redis.sock"))
            .args([
                "-a",
                "s3cret",
                "--no-auth-warning",
                "--json",
                "XRANGE",
                &format!("infinijup:events:{}", rustix::process::geteuid().as_raw()),
                "-",
                "+",
            ])
            .output()
            .unwrap();
        let Ok(Value::Array(entries)) = serde_json::from_slice(&output.stdout) else { return Vec::new() };
        let event = |entry: &Value| {
            assert_eq!(entry[1][0], "event");
            serde_json::from_str(entry[1][1].as_str().unwrap()).unwrap()
        };
        entries.iter().map(event).collect()
    }

    fn until(&self, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let events = self.events();
            if wanted(&events) {
                return events;
            }
            assert!(Instant::now() < end, "{events:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_in_the_users_stream_and_survive_an_absence() {
    let Some(mut redis) = Redis::start() else { return };
    let daemon = Daemon::start().await;
    daemon.app.publish_to(redis.address()).unwrap();
    let session = daemon.double.add("hers");
    daemon.double.tell(&session);
    let events = redis.until(|events| !events.is_empty());
    assert_eq!((&events[0]["kind"], &events[0]["commit"]), (&"snapshot_taken".into(), &"c0ffee".into()));

    // While it is away nothing waits for it; when it is back it is told what came meanwhile, in order.
    redis.end();
    for _ in 0..3 {
        daemon.double.tell(&session);
    }
    redis.start_again();
    let events = redis.until(|events| events.len() == 3);
    let ids: Vec<_> = events.iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}
