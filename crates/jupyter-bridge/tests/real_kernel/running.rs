//! A real kernel, and a page that sends it cells.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use jupyter_bridge::client::{Bridge, Doing, Kernel, Listener, Status};
use jupyter_bridge::{ConnectionFile, Ports};
use serde_json::Value;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

const PYTHON: &str = "/opt/infinijup/test-venv/bin/python";

/// The Python that has ipykernel.
pub(crate) fn python() -> Option<PathBuf> {
    let python = PathBuf::from(PYTHON);
    if python.exists() {
        return Some(python);
    }
    println!(
        "skipped: a test with a real kernel because {PYTHON} is missing; scripts/test-python.sh makes it"
    );
    None
}

/// A kernel under test. Ends with this.
pub(crate) struct Running {
    directory: tempfile::TempDir,
    python: PathBuf,
    file: ConnectionFile,
    kernel: Child,
    /// Sends cells as a page does, with another library than ours.
    page: Child,
}

/// Reads lines, and executes each as a cell whose code it is in JSON.
const PAGE: &str = "
import json, sys
from jupyter_client import BlockingKernelClient
client = BlockingKernelClient()
client.load_connection_file(sys.argv[1])
client.start_channels(hb=False)
client.execute(f'stop = {sys.argv[2]!r}', reply=True, timeout=60)
print('ready', flush=True)
for line in sys.stdin:
    client.execute(json.loads(line))
";

impl Running {
    pub(crate) fn start(python: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file =
            ConnectionFile::new(own_address(), Ports::from_array([9001, 9002, 9003, 9004, 9005]), "python3")
                .unwrap();
        file.write(&directory.path().join("connection.json")).unwrap();
        let kernel = launch(python, directory.path());
        let page = page(python, directory.path());
        let mut running = Self { kernel, page, python: python.to_owned(), file, directory };
        running.greet();
        running
    }

    /// Waits for the page, which gives the kernel its first cell: the file that ends a wait.
    fn greet(&mut self) {
        use std::io::{BufRead, BufReader};
        let mut line = String::new();
        BufReader::new(self.page.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
    }

    fn stop(&self) -> PathBuf {
        self.directory.path().join("stop")
    }

    /// Lets a cell that waits for the file `stop` go on.
    pub(crate) fn release(&self) {
        std::fs::write(self.stop(), "").unwrap();
    }

    /// How it is reached.
    pub(crate) fn file(&self) -> &ConnectionFile {
        &self.file
    }

    pub(crate) fn listen(&self, bridge: &Bridge) -> (Kernel, Heard) {
        let shared = Arc::new(Shared::default());
        let (send, requests) = channel();
        let kernel =
            bridge.connect(&self.file, Ears { shared: Arc::clone(&shared), requests: send }).unwrap();
        (kernel, Heard { shared, requests })
    }

    pub(crate) fn execute(&self, code: &str) {
        use std::io::Write;
        let mut stdin = self.page.stdin.as_ref().unwrap();
        writeln!(stdin, "{}", Value::from(code)).unwrap();
        stdin.flush().unwrap();
    }

    /// Listens, and waits until all that was before is known: the second cell has run.
    pub(crate) fn listen_from_cell_two(&self, bridge: &Bridge) -> (Kernel, Heard) {
        let (kernel, heard) = self.listen(bridge);
        heard.until(LIMIT, |status| status.doing == Doing::Idle);
        self.execute("pass");
        heard.until(LIMIT, |status| status.doing == Doing::Idle && status.number == Some(2));
        (kernel, heard)
    }

    /// Executes a cell and waits until it has run.
    pub(crate) fn execute_and_wait(&self, heard: &Heard, code: &str) {
        let runs = heard.last().unwrap().runs;
        self.execute(code);
        heard.until(LIMIT, |status| status.doing == Doing::Idle && status.runs > runs);
    }

    pub(crate) fn end(&mut self) {
        self.kernel.kill().unwrap();
        self.kernel.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.kernel = launch(&self.python, self.directory.path());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in [&mut self.kernel, &mut self.page] {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
    }
}

fn launch(python: &Path, directory: &Path) -> Child {
    Command::new(python)
        .args(["-m", "ipykernel_launcher", "--HistoryManager.enabled=False", "-f"])
        .arg(directory.join("connection.json"))
        .env("IPYTHONDIR", directory)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn page(python: &Path, directory: &Path) -> Child {
    Command::new(python)
        .args(["-c", PAGE])
        .args([directory.join("connection.json"), directory.join("stop")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// An address of the loopback network that no other test has, where every port is free: one that is looked for among those of
/// 127.0.0.1 can be taken by the next connection that anybody makes.
fn own_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    [127, 1 | high, low, NEXT.fetch_add(1, Ordering::Relaxed)].into()
}

#[derive(Default)]
struct Shared {
    statuses: Mutex<Vec<Status>>,
    changed: Condvar,
}

struct Ears {
    shared: Arc<Shared>,
    requests: Sender<Value>,
}

impl Listener for Ears {
    fn status(&self, status: &Status) {
        self.shared.statuses.lock().unwrap().push(status.clone());
        self.shared.changed.notify_all();
    }

    fn request(&self, content: Value) {
        self.requests.send(content).unwrap();
    }
}

/// What was heard from a kernel.
pub(crate) struct Heard {
    shared: Arc<Shared>,
    requests: Receiver<Value>,
}

impl Heard {
    pub(crate) fn last(&self) -> Option<Status> {
        self.shared.statuses.lock().unwrap().last().cloned()
    }

    /// Waits until the last status, or one that came since the last call, is as wanted; takes all up to it.
    pub(crate) fn until(&self, limit: Duration, wanted: impl Fn(&Status) -> bool) -> Status {
        let end = Instant::now() + limit;
        let mut statuses = self.shared.statuses.lock().unwrap();
        loop {
            if let Some(at) = statuses.iter().position(&wanted) {
                // The last one stays, so that there always is one.
                let found = statuses[at].clone();
                let upto = at.min(statuses.len() - 1);
                statuses.drain(..upto);
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not within {limit:?}; last {:?}", statuses.last());
            statuses = self.shared.changed.wait_timeout(statuses, left).unwrap().0;
        }
    }

    pub(crate) fn request(&self, limit: Duration) -> Value {
        self.requests.recv_timeout(limit).unwrap()
    }
}
