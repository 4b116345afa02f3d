"""`doctor` says the truth about this machine, and its exit code tells a script."""

import os
import subprocess

from harness.daemon import criu


def test_this_machine_works(module_commands):
    answer = module_commands.run("doctor")
    report = answer.one("doctor")
    assert answer.code == 0 and report["works"]
    assert not [finding for finding in report["findings"] if finding["state"] == "fail"]
    evidence = {finding["item"]: finding["evidence"] for finding in report["findings"]}
    assert len(evidence) == len(report["findings"]), "an item is judged twice"
    version = subprocess.run([criu(), "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert version in evidence["criu"] and criu() in evidence["criu"]
    assert evidence["kernel"] == f"Linux {os.uname().release}"
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
    failed = {finding["item"]: finding for finding in report["findings"] if finding["state"] == "fail"}
    assert "criu" in failed, failed
    assert "install" in failed["criu"]["fix"], failed["criu"]


def test_what_it_says_of_the_kernel_is_true(module_commands):
    findings = {finding["item"]: finding for finding in module_commands.run("doctor").one("doctor")["findings"]}
    has_soft_dirty = subprocess.run([criu(), "check", "--feature", "mem_dirty_track"], capture_output=True, check=False).returncode == 0
    assert (findings["soft-dirty"]["state"] == "ok") == has_soft_dirty, findings["soft-dirty"]
    # Since Linux 6.7.
    has_scan = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 7)
    assert (findings["PAGEMAP_SCAN"]["state"] == "ok") == has_scan, findings["PAGEMAP_SCAN"]
