//! The crate `nvml-wrapper`, which our own `gpu-detect` uses, on the stand-in. Needs no privileges: plain files are the nodes.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cuda-sim");
/// Says to this test, when it is started by itself, that it is to read NVML now.
const READER: &str = "CUDA_SIM_TEST_READER";

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn serve(directory: &Path) -> Server {
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--gpus", "2", "--memory", "1GiB", "--chip", "h100,rtx4090", "--dir"])
        .arg(directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains("ready"), "{ready}");
    Server(child)
}

fn control(directory: &Path, command: &str) {
    let done = Command::new(PROGRAM).args(["ctl", command, "--dir"]).arg(directory).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Our own program again, with the library's environment: it is found by the loader, so it must be set before the start.
fn read_again(library: &Path, server: &Path, nodes: &Path, what: &str) {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nvml_wrapper_reads_the_stand_in", "--nocapture"])
        .env(READER, what)
        .env("LD_LIBRARY_PATH", library)
        .env("CUDA_SIM_DIR", server)
        .env("CUDA_SIM_DEV", nodes)
        .output()
        .unwrap();
    let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("read it"), "{what}: {said}\n{complained}");
}

#[test]
fn nvml_wrapper_reads_the_stand_in() {
    if let Ok(what) = std::env::var(READER) {
        read(&what);
        println!("read it");
        return;
    }
    let room = tempfile::tempdir().unwrap();
    let [library, directory, nodes] = ["lib", "server", "dev"].map(|name| room.path().join(name));
    for path in [&library, &directory, &nodes] {
        std::fs::create_dir(path).unwrap();
    }
    let installed = Command::new(PROGRAM).args(["install", "--dir"]).arg(&library).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    read_again(&library, &directory, &nodes, "nothing");
    let _server = serve(&directory);
    read_again(&library, &directory, &nodes, "nothing");
    for node in ["nvidiactl", "nvidia0", "nvidia1"] {
        std::fs::write(nodes.join(node), "").unwrap();
    }
    read_again(&library, &directory, &nodes, "two");
    control(
        &directory,
        r#"{"do":"nvml","zero-byte-pids":[1,2],"persistence":{"0":false},"nvlink":true,"mig":{"0":2}}"#,
    );
    read_again(&library, &directory, &nodes, "modes");
    control(&directory, r#"{"do":"lose","gpu":0}"#);
    read_again(&library, &directory, &nodes, "lost");
    std::fs::remove_file(nodes.join("nvidia0")).unwrap();
    read_again(&library, &directory, &nodes, "one");
}

fn read(what: &str) {
    if what == "nothing" {
        assert!(matches!(Nvml::init(), Err(NvmlError::DriverNotLoaded)));
        return;
    }
    let nvml = Nvml::init().unwrap();
    assert_eq!(nvml.sys_driver_version().unwrap(), "580.95.05");
    assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 13000);
    match what {
        "two" => read_two(&nvml),
        "modes" => read_modes(&nvml),
        "lost" => {
            assert_eq!(nvml.device_count().unwrap(), 2);
            assert!(matches!(nvml.device_by_index(0), Err(NvmlError::GpuLost)));
            assert_eq!(nvml.device_by_index(1).unwrap().minor_number().unwrap(), 1);
        }
        _ => {
            // The one whose node is there has another index and the same minor.
            assert_eq!(nvml.device_count().unwrap(), 1);
            let device = nvml.device_by_index(0).unwrap();
            assert_eq!((device.index().unwrap(), device.minor_number().unwrap()), (0, 1));
        }
    }
}

fn read_two(nvml: &Nvml) {
    assert_eq!(nvml.device_count().unwrap(), 2);
    let names = [("NVIDIA H100 80GB HBM3", 0x2330_10de, 9), ("NVIDIA GeForce RTX 4090", 0x2684_10de, 8)];
    for ((name, chip, major), index) in names.into_iter().zip(0..) {
        let device = nvml.device_by_index(index).unwrap();
        assert_eq!(device.name().unwrap(), name);
        let pci = device.pci_info().unwrap();
        assert_eq!(pci.pci_device_id, chip);
        assert_eq!(nvml.device_by_pci_bus_id(pci.bus_id).unwrap().index().unwrap(), index);
        assert_eq!(nvml.device_by_uuid(device.uuid().unwrap()).unwrap().index().unwrap(), index);
        let memory = device.memory_info().unwrap();
        assert_eq!((memory.total, memory.used, memory.free), (1 << 30, 0, 1 << 30));
        assert_eq!(device.cuda_compute_capability().unwrap().major, major);
        assert!(device.is_in_persistent_mode().unwrap());
        assert!(!device.is_cc_enabled().unwrap());
        assert!(device.temperature(TemperatureSensor::Gpu).unwrap() > 0);
        assert!(device.running_compute_processes().unwrap().is_empty());
        assert!(device.running_graphics_processes().unwrap().is_empty());
        assert!(device.mps_running_compute_processes().unwrap().is_empty());
        assert_eq!(device.utilization_rates().unwrap().gpu, 0);
        assert!(matches!(device.link_wrapper_for(0).is_active(), Err(NvmlError::NotSupported)));
        assert!(matches!(device.fan_speed(0), Err(NvmlError::NotSupported)));
    }
    assert_eq!(nvml.device_by_index(0).unwrap().mig_mode().unwrap().current, 0);
    assert!(matches!(nvml.device_by_index(1).unwrap().mig_mode(), Err(NvmlError::NotSupported)));
}

fn read_modes(nvml: &Nvml) {
    let device = nvml.device_by_index(0).unwrap();
    let pids: Vec<u32> =
        device.running_compute_processes().unwrap().iter().map(|process| process.pid).collect();
    assert_eq!(pids, [1, 2]);
    assert!(!device.is_in_persistent_mode().unwrap());
    assert!(device.link_wrapper_for(0).is_active().unwrap());
    let peer = device.link_wrapper_for(0).remote_pci_info().unwrap();
    assert_eq!(peer.bus_id, nvml.device_by_index(1).unwrap().pci_info().unwrap().bus_id);
    assert_eq!(device.mig_mode().unwrap().current, 1);
    assert!(device.mig_device_by_index(1).unwrap().uuid().unwrap().starts_with("MIG-"));
    assert!(matches!(device.mig_device_by_index(2), Err(NvmlError::NotFound)));
}
