//! `detect`: how long it takes to say what a process, and what every process, has on the GPU.
//!
//! The large process has everything that makes a look long: 2,000 mappings, 500 descriptors, some of each on what looks in
//! `/proc` like NVIDIA's devices (sparse files in a private mount namespace), so that it is read to the end. The thousand are
//! `sleep`s beside whatever else runs on the machine. Both are compared with the bare reading of the same files. Where runc is installed, a
//! paused container is found and looked at, too.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use gpu_detect::{Detector, Kind as Found};
use serde_json::json;

use crate::live::{PYTHON, able};
use crate::measure::median;
use crate::paused_container::{Paused, RUNC};
use crate::report::{Bar, Kind, Report, round};
use crate::run::Run;

const MAPPINGS: usize = 2000;
const DESCRIPTORS: usize = 500;

/// Makes itself large, says `ready`, and waits for its standard input to end. Every fourth mapping is of a device.
const LARGE: &str = r#"
import ctypes, os, socket, sys, threading
mappings, descriptors = int(sys.argv[1]), int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
SHARED, PRIVATE, FIXED, ANONYMOUS = 1, 2, 16, 32
names = ["nvidiactl", "nvidia-uvm", "nvidia0"]
devices = []
for name in names:
    fd = os.open("/dev/" + name, os.O_RDWR | os.O_CREAT)
    os.truncate(fd, 1 << 47)
    devices.append(fd)
def count():
    with open("/proc/self/maps") as maps:
        return sum(1 for _ in maps)
address, at = 0x7E0000000000, 0
def fill():
    global at
    for _ in range(mappings - count()):
        where = address + at * 0x200000
        kind = at % 8
        if kind == 0:
            got = libc.mmap(where, 4096, 3, SHARED | FIXED, devices[1], where)
        elif kind == 4:
            got = libc.mmap(where, 4096, 3, SHARED | FIXED, devices[2], 0)
        else:
            got = libc.mmap(where, 4096, 1 + kind % 3, PRIVATE | FIXED | ANONYMOUS, -1, 0)
        assert got == where, ctypes.get_errno()
        at += 1
fill()
for _ in range(6):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
keep = []
used = len(os.listdir("/proc/self/fd")) - 1
for number in range(descriptors - used):
    if number % 10 == 0:
        keep.append(socket.socket(socket.AF_UNIX))
    elif number % 10 < 3:
        keep.append(os.dup(devices[number % 3]))
    else:
        keep.append(os.open("/proc/self/exe", os.O_RDONLY))
fill()
print("ready", count(), len(os.listdir("/proc/self/fd")) - 1, flush=True)
sys.stdin.read()
"#;

pub(crate) fn run(run: &Run) -> Result<Report> {
    able()?;
    let many = if run.smoke { 100 } else { 1000 };
    let (looks, sweeps) = if run.smoke { (5, 3) } else { (60 * run.rounds, 10 * run.rounds) };
    let detector = Detector::new(Path::new("/proc"), None);

    let large = Large::start()?;
    run.say(&format!(
        "detect: a process with {} mappings and {} descriptors",
        large.mappings, large.descriptors
    ));
    let (mut one, mut bare_one, mut found) = (Vec::new(), Vec::new(), 0);
    for _ in 0..looks {
        let (report, took) = milliseconds(|| Ok(detector.process(large.pid()?)?))?;
        one.push(took);
        found = report.findings.iter().filter(|of| matches!(of.kind, Found::Managed | Found::Uvm)).count();
        bare_one.push(milliseconds(|| bare_look(large.pid()?))?.1);
    }

    run.say(&format!("detect: {many} small processes"));
    let _crowd = Crowd::start(many)?;
    let (mut all, mut bare_all, mut looked_at) = (Vec::new(), Vec::new(), 0);
    for _ in 0..sweeps {
        let (report, took) = milliseconds(|| Ok(detector.all()?))?;
        ensure!(report.looked_at > many, "only {} processes were looked at", report.looked_at);
        looked_at = report.looked_at;
        all.push(took);
        bare_all.push(milliseconds(bare_sweep)?.1);
    }
    let mut paused = Vec::new();
    if Path::new(RUNC).exists() {
        run.say("detect: a paused container");
        let container = Paused::start()?;
        for _ in 0..looks {
            paused.push(milliseconds(|| container.look(&detector))?.1);
        }
    } else {
        run.say("detect: no container, because scripts/install-containers.sh was not run");
    }
    let figures = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (sorted.first().copied(), sorted.last().copied());
        json!({ "median_ms": round(median(values)), "least_ms": least.map(round), "most_ms": most.map(round) })
    };
    let mut report = Report {
        name: "detect",
        bars: vec![
            Bar::at_most(Kind::Speed, "one process", median(&one), "ms", 5.0),
            Bar::at_most(Kind::Speed, "all processes", median(&all), "ms", 100.0),
            Bar::at_least(
                Kind::Count,
                "findings in the large process",
                f64::from(u8::try_from(found)?),
                "of 2",
                2.0,
            ),
        ],
        compared_with: json!({
            "one": figures(&one), "one_bare_reading": figures(&bare_one),
            "all": figures(&all), "all_bare_reading": figures(&bare_all),
            "paused_container": figures(&paused),
        }),
        sizes: json!({
            "mappings": large.mappings, "descriptors": large.descriptors, "processes_of_ours": many,
            "processes_looked_at": looked_at, "looks": looks, "sweeps": sweeps,
        }),
    };
    if !paused.is_empty() {
        report.bars.push(Bar::at_most(Kind::Speed, "a paused container", median(&paused), "ms", 100.0));
    }
    Ok(report)
}

fn milliseconds<T>(step: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let begin = Instant::now();
    let value = step()?;
    Ok((value, begin.elapsed().as_secs_f64() * 1000.0))
}

/// The mappings and the links, read and thrown away.
fn bare_look(pid: i32) -> Result<usize> {
    let maps = fs::read(format!("/proc/{pid}/maps"))?;
    let mut bytes = maps.len();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        bytes += fs::read_link(entry?.path()).map_or(0, |link| link.as_os_str().len());
    }
    Ok(bytes)
}

fn bare_sweep() -> Result<usize> {
    let mut bytes = 0;
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            // Some have ended by now.
            bytes += bare_look(pid).unwrap_or_default();
        }
    }
    Ok(bytes)
}

/// A process that takes long to look at.
struct Large {
    child: Child,
    mappings: usize,
    descriptors: usize,
}

impl Large {
    fn start() -> Result<Self> {
        let script = "mount -t tmpfs tmpfs /dev && exec \"$0\" -c \"$1\" \"$2\" \"$3\"";
        let mut child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script, PYTHON, LARGE])
            .args([MAPPINGS.to_string(), DESCRIPTORS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start unshare")?;
        let answers = child.stdout.take().context("no standard output")?;
        let mut large = Self { child, mappings: 0, descriptors: 0 };
        let mut line = String::new();
        BufReader::new(answers).read_line(&mut line)?;
        let mut words = line.split_whitespace();
        ensure!(words.next() == Some("ready"), "the large process failed");
        large.mappings = words.next().context("no number of mappings")?.parse()?;
        large.descriptors = words.next().context("no number of descriptors")?.parse()?;
        ensure!(large.mappings >= MAPPINGS && large.descriptors >= DESCRIPTORS, "it is too small: {line}");
        Ok(large)
    }

    fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.child.id())?)
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Many small processes.
struct Crowd(Vec<Child>);

impl Crowd {
    fn start(many: usize) -> Result<Self> {
        let mut crowd = Self(Vec::with_capacity(many));
        for _ in 0..many {
            let child = Command::new("sleep").arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            crowd.0.push(child.context("cannot start sleep")?);
        }
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
