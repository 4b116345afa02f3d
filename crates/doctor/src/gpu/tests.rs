use super::*;
use crate::FindingState;
use std::collections::BTreeMap;

fn node(name: &str) -> DeviceNode {
    DeviceNode { name: name.to_owned(), major: 195, minor: 0 }
}

fn no_driver() -> DetectError {
    DetectError::NoDriver { detail: "libnvidia-ml.so.1".to_owned() }
}

/// A machine where everything is well.
fn well() -> Seen {
    let gpu = |index: u32| HostGpu {
        index,
        minor: index,
        uuid: format!("GPU-{index}"),
        memory_bytes: 80 << 30,
        persistence: Some(true),
        ..HostGpu::default()
    };
    let host = Host {
        driver_version: "580.95.05".to_owned(),
        cuda_version: 13_000,
        gpus: vec![gpu(0), gpu(1)],
        ..Host::default()
    };
    Seen {
        nodes: ["nvidia0", "nvidia1", "nvidia-uvm", "nvidiactl"].map(node).to_vec(),
        module: true,
        host: Ok(host),
        driver: Some(Ok(Capabilities {
            backend: Backend::Api,
            cuda_version: 13_000,
            pairs: true,
            custom_storage: false,
        })),
        memory: 512 << 30,
        mps: false,
    }
}

fn look_at(seen: Seen) -> Vec<Finding> {
    let dir = Path::new("/nonexistent");
    let free_bytes = &|_: &Path| Ok(1 << 40);
    look(&Machine {
        state_dir: dir,
        run_dir: dir,
        criu: None,
        program: None,
        copies_ahead: Ok(()),
        not_followed: BTreeMap::new(),
        gpu: Some(seen),
        free_bytes,
    })
}

/// The items that are not well, without CRIU's, which the tests do not have.
fn warned(seen: Seen) -> Vec<&'static str> {
    let findings = look_at(seen);
    assert!(findings.iter().all(|finding| finding.state != FindingState::Fail), "{findings:?}");
    for finding in &findings {
        assert_eq!(finding.fix.is_some(), finding.state != FindingState::Ok, "{finding:?}");
    }
    let warned = findings.iter().filter(|finding| finding.state == FindingState::Warn);
    warned.map(|finding| finding.item).filter(|item| *item != "gpu criu").collect()
}

#[test]
fn without_a_driver_there_is_one_item_and_it_is_well() {
    let seen = Seen { nodes: Vec::new(), module: false, host: Err(no_driver()), driver: None, ..well() };
    let findings = look_at(seen);
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].item, findings[0].state), ("gpu", FindingState::Ok));
    assert_eq!(findings[0].evidence, "no NVIDIA driver here; sessions without GPU work");
}

#[test]
fn a_good_machine_has_nothing_to_warn_of() {
    assert_eq!(warned(well()), Vec::<&str>::new());
}

#[test]
fn each_trouble_is_its_own_item() {
    let with = |change: &dyn Fn(&mut Seen)| {
        let mut seen = well();
        change(&mut seen);
        warned(seen)
    };
    let host = |change: &dyn Fn(&mut Host)| {
        with(&|seen: &mut Seen| {
            if let Ok(host) = &mut seen.host {
                change(host);
            }
        })
    };
    assert_eq!(host(&|host| host.driver_version = "555.58.02".to_owned()), ["gpu driver"]);
    assert_eq!(host(&|host| host.driver_version = "new".to_owned()), ["gpu driver"]);
    assert_eq!(host(&|host| host.trouble.push("GPU 1 is lost".to_owned())), ["gpu nvml"]);
    assert_eq!(host(&|host| host.gpus.clear()), ["gpu nvml"]);
    assert_eq!(host(&|host| host.gpus[1].persistence = Some(false)), ["gpu persistence"]);
    assert_eq!(host(&|host| host.gpus[1].persistence = None), ["gpu persistence"]);
    assert_eq!(host(&|host| host.gpus[0].mig = Some(Vec::new())), ["gpu mig"]);
    assert_eq!(host(&|host| host.gpus[0].mps = true), ["gpu mps"]);
    assert_eq!(with(&|seen| seen.mps = true), ["gpu mps"]);
    assert_eq!(with(&|seen| seen.memory = 100 << 30), ["gpu host memory"]);
    assert_eq!(with(&|seen| seen.nodes.retain(|node| node.name != "nvidia-uvm")), ["gpu device nodes"]);
    assert_eq!(
        with(&|seen| seen.driver = Some(Err("the NVIDIA driver has no cuCheckpointProcessLock".to_owned()))),
        ["gpu checkpoint", "gpu remap"]
    );
    assert_eq!(
        with(&|seen| {
            let tool = Capabilities {
                backend: Backend::Tool,
                cuda_version: 12_040,
                pairs: false,
                custom_storage: false,
            };
            seen.driver = Some(Ok(tool));
        }),
        ["gpu cuda", "gpu checkpoint", "gpu remap"]
    );
}

#[test]
fn half_a_driver_is_told_of() {
    // nodes and no library, a library and no answer
    let nodes = Seen { host: Err(no_driver()), ..well() };
    assert_eq!(warned(nodes), ["gpu nvml", "gpu driver"]);
    let hung = DetectError::Hung { limit: std::time::Duration::from_secs(5) };
    let hung = Seen { nodes: Vec::new(), module: false, host: Err(hung), ..well() };
    assert_eq!(warned(hung), ["gpu nvml", "gpu driver", "gpu device nodes"]);
}

#[test]
fn criu_and_its_plugin() {
    assert_eq!(criu(Some((4, 2, 1)), None).state, FindingState::Ok);
    assert_eq!(criu(Some((3, 19, 0)), None).state, FindingState::Warn);
    assert_eq!(criu(None, None).state, FindingState::Warn);
    let kept_out = criu(Some((4, 0, 0)), Some(Path::new("/usr/lib/criu/cuda_plugin.so")));
    assert!(kept_out.state == FindingState::Ok && kept_out.evidence.contains("kept out"), "{kept_out:?}");
}

#[test]
fn numbers_are_read() {
    assert_eq!((branch("580.95.05"), branch("")), (Some(580), None));
}
