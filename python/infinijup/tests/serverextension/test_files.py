"""A branch's files are seen beside its notebook, and those of a snapshot come into a folder."""

import pytest

pytestmark = pytest.mark.timeout(240)


async def test_a_branch_has_a_folder_beside_its_notebook_that_goes_with_it(notebook, rest, daemon, jp_root_dir, extension, tmp_path):
    kernel = (await notebook())["kernel"]["id"]
    (tmp_path / "only here.csv").write_text("1,2")
    daemon.workspace = str(tmp_path)
    (jp_root_dir / "a (branch) files").mkdir()
    status, made = await rest("POST", "branch", {"kernel_id": kernel})
    assert status == 200 and made["folder"] == "a (branch) files 2", "a name that is taken is left alone"
    folder = jp_root_dir / made["folder"]
    assert (folder / "only here.csv").read_text() == "1,2"
    session = made["session"]["id"]
    status, files = await rest("GET", f"sessions/{session}/files")
    assert status == 200 and files["own"] and files["folder"] == made["folder"]
    assert files["loose"] == [{"path": "/w/new.csv", "bytes": 5}]
    assert (await rest("DELETE", f"sessions/{session}"))[0] == 200
    assert not folder.exists() and not folder.is_symlink()
    assert (tmp_path / "only here.csv").exists(), "what a link leads to is never removed"


async def test_somebody_elses_link_stays(notebook, rest, daemon, jp_root_dir, tmp_path):
    kernel = (await notebook())["kernel"]["id"]
    daemon.workspace = str(tmp_path)
    _, made = await rest("POST", "branch", {"kernel_id": kernel})
    folder = jp_root_dir / made["folder"]
    folder.unlink()
    folder.symlink_to(jp_root_dir)
    assert (await rest("DELETE", f"sessions/{made['session']['id']}"))[0] == 200
    assert folder.is_symlink()


async def test_files_of_a_snapshot_come_into_a_folder(notebook, rest, daemon, jp_root_dir):
    kernel = (await notebook())["kernel"]["id"]
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel})
    assert (await rest("GET", "files", commit=taken["commit"]))[1]["count"] == 1
    (jp_root_dir / "found").mkdir()
    body = {"commit": taken["commit"], "folder": "found", "paths": ["/w/new.csv"]}
    assert await rest("POST", "files", body) == (200, {"written": ["found/new.csv"], "skipped": []})
    for folder in ("nowhere", "../.."):
        assert (await rest("POST", "files", {**body, "folder": folder}))[0] in (400, 404), folder
    assert (await rest("POST", "files", {**body, "paths": "x"}))[0] == 400
