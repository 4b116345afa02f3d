"""Kernelspecs that always start under the daemon."""

import json

import pytest

pytest.importorskip("httpx")
pytest.importorskip("jupyter_client")

from infinijup import kernelspec


@pytest.fixture
def share(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    spec = tmp_path / "share/kernels/bash"
    spec.mkdir(parents=True)
    argv = ["bash-kernel", "{resource_dir}", "-f", "{connection_file}"]
    content = {"argv": argv, "display_name": "Bash", "language": "bash", "env": {"A": "b"}, "interrupt_mode": "message"}
    spec.joinpath("kernel.json").write_text(json.dumps(content))
    spec.joinpath("logo-64x64.png").write_bytes(b"png")
    return tmp_path


def test_a_copy_has_all_of_the_original_and_names_us(share, capsys):
    assert (
        kernelspec.main(["kernelspec", "install", "bash", "--memory", "2G", "--network", "host", "--gpus", "0,1", "--files", "tree"]) == 0
    )
    made = share / "data/kernels/bash-infinijup"
    assert capsys.readouterr().out == f"bash-infinijup: {made}\n"
    spec = json.loads((made / "kernel.json").read_text())
    assert (spec["display_name"], spec["env"], spec["interrupt_mode"]) == ("Bash (infinijup)", {"A": "b"}, "message")
    assert spec["argv"] == ["bash-kernel", "{resource_dir}", "-f", "{connection_file}"]
    config = {"network": "host", "files": "tree", "gpus": "0,1", "memory_limit": 2 << 30}
    assert spec["metadata"]["kernel_provisioner"] == {"provisioner_name": "infinijup", "config": config}
    assert (made / "logo-64x64.png").read_bytes() == b"png"
    assert kernelspec.main(["kernelspec", "remove", "bash-infinijup"]) == 0
    assert not made.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["install", "nothing"], "there is no kernel nothing"),
        (["install", "bash", "--memory", "lots"], "not a size"),
        (["install", "bash", "bash", "--name", "x"], "one kernel at a time"),
        (["remove", "bash"], "was not made by"),
    ],
)
def test_mistakes_are_told(share, capsys, words, says):
    assert kernelspec.main(["kernelspec", *words]) == 1
    assert says in capsys.readouterr().err


def test_one_with_a_provisioner_of_its_own_is_left_alone(share, capsys):
    assert kernelspec.main(["kernelspec", "install", "bash"]) == 0
    assert kernelspec.main(["kernelspec", "install", "bash-infinijup"]) == 1
    assert "a provisioner of its own" in capsys.readouterr().err
