"""What a kernel's command and environment become."""

import sys

import pytest

pytest.importorskip("httpx")

from infinijup import launch

IPYKERNEL = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]


def test_the_place_of_the_connection_file_is_left_open():
    words = ["kernel", "-f", "/run/kernel-1.json", "--file=/run/kernel-1.json", "/run/kernel-1.json.log"]
    opened = launch.open_placeholder(words, "/run/kernel-1.json")
    assert opened == ["kernel", "-f", "{connection_file}", "--file={connection_file}", "{connection_file}.log"]


def test_ipykernel_has_no_history_file_and_gets_the_magic_if_it_can_import_it():
    own = launch.prepared(IPYKERNEL, {"PYTHONPATH": "", "PATH": "/usr/bin"})
    assert launch.NO_HISTORY in own
    path = str(launch.__file__).rsplit("/", 2)[0]
    assert launch.prepared(IPYKERNEL, {"PYTHONPATH": path})[-2:] == [launch.NO_HISTORY, launch.MAGIC]
    given = [*IPYKERNEL, "--HistoryManager.enabled=True", "--IPKernelApp.extra_extensions=mine"]
    assert launch.prepared(given, {"PYTHONPATH": path}) == given
    launcher = [sys.executable, "-m", "nb_conda_kernels.runner", "/opt/conda", "/envs/x", "python", "-m", "ipykernel_launcher"]
    assert launch.prepared(launcher, {"PYTHONPATH": path}) == [*launcher, launch.NO_HISTORY]
    assert launch.prepared(["bash", "-f", "{connection_file}"], {}) == ["bash", "-f", "{connection_file}"]


def test_kernels_that_would_not_survive_are_known():
    for words in (["python3.11", "-m", "xpython_launcher", "-f", "f"], ["/opt/bin/xpython", "-f", "f"], ["xcpp17"]):
        assert "xeus" in launch.unfit(words)
    for words in (IPYKERNEL, [sys.executable, "-m", "bash_kernel", "-f", "f"], ["xonsh"]):
        assert launch.unfit(words) is None


def test_a_python_that_is_not_there_has_no_package():
    assert not launch.has_package("/nowhere/python", {})


def test_the_parent_is_not_watched():
    found = launch.environment({"A": "b", "JPY_PARENT_PID": "1", "C": "\udce9"}, "study")
    assert found == [{"name": "A", "value": "b"}, {"name": "C", "value": {"hex": "e9"}}, {"name": "INFINIJUP_SESSION", "value": "study"}]


def test_names_are_what_people_know_and_the_daemon_takes():
    assert launch.free_name("study", [], "id") == "study"
    assert launch.free_name("study", ["study", "study-2"], "id") == "study-3"
    assert launch.free_name("été – <b>1</b>", [], "id") == "été-b-1-b"
    assert launch.free_name("…", [], "id") == "kernel"
    assert len(launch.free_name("x" * 300, [], "id")) == 48


def test_sizes_and_wishes():
    assert [launch.size(text) for text in (None, 5, "8G", "1.5 MiB", "512kb")] == [None, 5, 8 << 30, 3 << 19, 512 << 10]
    assert launch.gpus_wish([0, "GPU-5"]) == {"type": "list", "gpus": ["0", "GPU-5"]}
    for wrong, function in (("much", launch.size), ("some", launch.files_wish)):
        with pytest.raises(ValueError, match=wrong):
            function(wrong)
