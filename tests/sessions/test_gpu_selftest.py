"""`infinijup selftest`, and what `infinijup doctor` says about GPUs, on the stand-in."""

import json

import pytest

from harness import proc
from harness.gpu import ONE_RUN_AT_A_TIME, is_locked
from harness.session import Commands

pytestmark = pytest.mark.timeout(600)

PYTHON = "/opt/infinijup/gpu-venv/bin/python"
SKIPPED = {"pytorch": "no PyTorch runs on the stand-in", "container": "it is for root: tests/containers/test_selftest.py"}


@pytest.fixture
def machine(gpu, make_daemon, user):
    """The stand-in, and a user's commands with a daemon that uses it."""
    return gpu, Commands(make_daemon(gpu.env()), user, gpu.env())


def selftest(commands, *options):
    """Runs it; the exit code, and the checks of its report by name."""
    report = commands.user.home / "report.json"
    words = ["selftest", "--python", PYTHON, "--size", "32", "--report", report, *options]
    answer = commands.run(*map(str, words), check=False, seconds=600)
    content = json.loads(report.read_text())
    assert content["passed"] == (answer.code == 0), content
    return answer.code, content, {check["name"]: check for check in content["checks"]}


def test_everything_that_is_claimed_of_gpus(machine):
    gpu, commands = machine
    code, report, checks = selftest(commands)
    wrong = {name: check["detail"] for name, check in checks.items() if check["state"] == "failed"}
    assert (code, wrong) == (0, {})
    skipped = {name for name, check in checks.items() if check["state"] == "skipped"}
    assert skipped == SKIPPED.keys(), {name: checks[name]["detail"] for name in skipped}
    assert len(checks) == 19
    assert "no helper is needed" in checks["permission"]["detail"]
    assert "not tried" in checks["container"]["detail"]
    assert [line["uuid"] for line in report["gpus"]] == gpu.uuids()
    assert report["versions"]["driver"].startswith("580.")
    assert report["versions"]["cuda-bindings"]
    # It leaves no session and no byte on a GPU.
    assert not commands.sessions()
    proc.until("nothing is held", lambda: gpu.bytes_held() == 0)


def test_with_one_gpu_what_needs_two_is_skipped(machine):
    _, commands = machine
    code, report, checks = selftest(commands, "--gpus", "1")
    assert code == 0, report
    assert checks["another gpu"]["state"] == "skipped"
    assert len(report["gpus"]) == 1


def test_a_driver_that_fails_is_reported(machine):
    gpu, commands = machine
    # The first is made by the check whether a user may.
    gpu.fault("checkpoint", {"error": 801}, nth=2)
    code, report, checks = selftest(commands, "--gpus", "1")
    assert code == 3, report
    failed = [name for name, check in checks.items() if check["state"] == "failed"]
    assert failed == ["snapshot while it works"], checks
    assert "801" in checks["snapshot while it works"]["detail"]
    assert checks["resume"]["detail"] == "an earlier check failed"
    assert not commands.sessions(), "it cleans up after a failure too"


def test_a_driver_that_wants_root_is_named(machine, gpu_helper):
    gpu, commands = machine
    gpu.control("root-only")
    commands.environment["INFINIJUP_GPU_HELPER"] = str(gpu_helper.with_name("nobody.sock"))
    _, _, checks = selftest(commands, "--gpus", "1")
    assert checks["permission"]["state"] == "failed", checks
    assert "`sudo infinijup setup-gpu`" in checks["permission"]["detail"]
    commands.environment["INFINIJUP_GPU_HELPER"] = str(gpu_helper)
    _, _, checks = selftest(commands, "--gpus", "1")
    assert checks["permission"]["state"] == "passed", checks
    assert "with the helper all calls work" in checks["permission"]["detail"]


def findings(commands):
    """What `doctor` says about GPUs, by item."""
    answer = commands.run("doctor")
    return {found["item"]: found for found in answer.one("doctor")["findings"] if found["item"].startswith("gpu")}


def test_the_doctor_of_a_good_machine(machine):
    _, commands = machine
    found = findings(commands)
    assert len(found) == 12, found
    # 8 GiB on GPUs may be more than this machine has.
    bad = {item: one for item, one in found.items() if one["state"] != "ok" and item != "gpu host memory"}
    assert not bad
    assert "580.95.05" in found["gpu driver"]["evidence"]
    assert "nvidia1" in found["gpu device nodes"]["evidence"]


def test_the_doctor_sees_what_is_wrong(machine):
    gpu, commands = machine
    gpu.nvml(persistence={"1": False}, mig={"0": 2})
    found = findings(commands)
    assert found["gpu persistence"]["state"] == "warn" and "GPU 1" in found["gpu persistence"]["evidence"]
    assert found["gpu mig"]["state"] == "warn" and "GPU 0" in found["gpu mig"]["evidence"]


@pytest.mark.parametrize(("level", "item"), [(555, "gpu checkpoint"), (570, "gpu remap")])
def test_the_doctor_of_an_old_driver(make_gpu, make_daemon, user, level, item):
    gpu = make_gpu(level=level)
    found = findings(Commands(make_daemon(gpu.env()), user, gpu.env()))
    assert found[item]["state"] == "warn", found
    assert found["gpu driver"]["state"] == ("ok" if level >= 570 else "warn")
    assert found["gpu cuda"]["state"] == ("ok" if level >= 570 else "warn")


def test_the_doctor_without_a_driver(commands):
    # Nodes of another run on this machine would be a driver.
    with ONE_RUN_AT_A_TIME.open("w") as lock:
        proc.until("another run has done with its GPUs", lambda: is_locked(lock), seconds=100, pause=0.2)
        found = findings(commands)
    assert [(one["item"], one["state"]) for one in found.values()] == [("gpu", "ok")]
