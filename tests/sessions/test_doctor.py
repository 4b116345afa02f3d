"""`doctor` says the truth about this machine, and its exit code tells a script."""

import os
import subprocess

from harness.daemon import criu


def test_this_machine_works(commands):
    answer = commands.run("doctor")
    report = answer.one("doctor")
    assert answer.code == 0 and report["works"]
    assert not [finding for finding in report["findings"] if finding["state"] == "fail"]
    text = " ".join(finding["evidence"] for finding in report["findings"])
    version = subprocess.run([criu(), "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert version in text
    assert os.uname().release in text
    for finding in report["findings"]:
        assert finding["evidence"], finding
        assert finding["state"] == "ok" or finding["fix"], f"a complaint without a way out: {finding}"


def test_it_works_for_root_too(root):
    assert root.run("doctor").one("doctor")["works"]


def test_without_criu_it_says_so(make_daemon, user):
    from harness.session import Commands

    daemon = make_daemon({"INFINIJUP_CRIU": "/nonexistent/criu"})
    answer = Commands(daemon, user).run("doctor", check=False)
    assert answer.code != 0
    report = answer.one("doctor")
    assert not report["works"]
    failed = [finding for finding in report["findings"] if finding["state"] == "fail"]
    assert any("criu" in finding["item"].lower() and finding["fix"] for finding in failed), failed


def test_what_it_says_of_the_kernel_is_true(commands):
    findings = {finding["item"]: finding for finding in commands.run("doctor").one("doctor")["findings"]}
    has_soft_dirty = subprocess.run([criu(), "check", "--feature", "mem_dirty_track"], capture_output=True, check=False).returncode == 0
    said = [finding for item, finding in findings.items() if "track" in item.lower() or "dirty" in item.lower()]
    for finding in said:
        assert (finding["state"] == "ok") == has_soft_dirty, finding
