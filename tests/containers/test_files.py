"""The files of containers: what belongs to a snapshot, what comes back, and what is never touched."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from harness import proc
from runtimes.saved import Saved, commands_of

READING = ["/bin/sh", "-c", "exec 9< /shared/settings; exec /usr/bin/python3 /app/counter.py /work"]


def only_to_read(other, here, inside):
    """What makes a container see a directory of this machine that it may not write to, for `run`."""
    if other.kind == "podman":
        return {"options": [f"--volume={here}:{inside}:ro"]}
    if other.kind == "containerd":
        return {"options": [f"--mount=type=bind,src={here},dst={inside},options=rbind:ro"]}
    mount = {"destination": inside, "type": "bind", "source": str(here), "options": ["rbind", "rro"]}
    return {"change": lambda specification: specification["mounts"].append(mount)}


def all_of(directory):
    """Everything in a directory, by name: contents, targets of links, and times."""
    found = {}
    for at, directories, files in os.walk(directory):
        for name in directories + files:
            path = Path(at, name)
            status = path.lstat()
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path.relative_to(directory))] = (status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns, content)
    return found


@pytest.mark.parametrize("other", ["runc", "containerd-overlayfs", "containerd-native", "podman"], indirect=True)
def test_a_directory_that_it_may_only_read_is_never_changed(make_daemon, other, tmp_path):
    root = commands_of(make_daemon, other, {})
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "settings").write_text("old")
    running = other.run(other.new_name("reads"), READING, **only_to_read(other, shared, "/shared"))
    running.counts()
    assert Path(proc.link(running.pid, "fd/9")) == Path("/shared/settings")
    # What the image has at this place is hidden, and nobody's work. The layer of an overlay must not be written to while it is mounted.
    hidden = other.own_directory(running.name) / "shared"
    if other.label in ("runc", "containerd-native"):
        hidden.mkdir(exist_ok=True)
        (hidden / "of-the-image").write_text("not seen")
        (hidden / "directory").mkdir()
        (hidden / "link").symlink_to("of-the-image")
    saved = Saved(root, running)
    commit = saved.snapshot("--files", "tree")["commit"]
    # Whoever looks after the directory goes on with it.
    (shared / "settings").write_text("new")
    (shared / "added").write_text("since")
    before = all_of(shared)
    saved.do("rollback", commit, kind="rolled_back")
    running.counts()
    assert all_of(shared) == before
    # And once more by the way of a suspend.
    saved.suspend()
    saved.resume()
    running.counts()
    assert all_of(shared) == before


def inside_of(running, path):
    """A file as the container sees it."""
    return Path(f"/proc/{running.pid}/root{path}")


def library(running):
    """A directory of the image that nothing in the container needs once it runs."""
    found = next(path for path in inside_of(running, "/usr/lib").glob("python3*") if path.is_dir())
    return f"/usr/lib/{found.name}"


def look(running, paths):
    """What the container sees at these paths: what it is, whose, and what is in it."""
    seen = {}
    for path in paths:
        at = inside_of(running, path)
        if not at.exists() and not at.is_symlink():
            seen[path] = None
            continue
        status = at.lstat()
        seen[path] = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, content(at))
    return seen


def content(at):
    """What is in it: where a link leads, the names in a directory, the bytes of a file."""
    if at.is_symlink():
        return os.readlink(at)
    if at.is_dir():
        return sorted(os.listdir(at))
    return at.read_bytes() if at.is_file() else None


@pytest.mark.parametrize("other", ["containerd-overlayfs", "podman"], indirect=True)
def test_a_layer_goes_back_with_what_it_hides_of_the_image_and_with_its_owners(make_daemon, other):
    root = commands_of(make_daemon, other, {})
    running = other.counter()
    saved, python = Saved(root, running), library(running)
    hidden, removed, whole = f"{python}/xml", f"{python}/email", f"{python}/json"
    paths = ["/etc/group", "/etc/passwd", hidden, removed, whole, "/app/keeper.py", "/srv", "/srv/pipe", "/srv/link", "/srv/new", "/opt"]

    def at(path):
        return inside_of(running, path)

    # A file and a directory of the image are removed, another directory is made anew, and several users have files.
    at("/etc/group").unlink()
    shutil.rmtree(at(removed))
    shutil.rmtree(at(hidden))
    at(hidden).mkdir()
    (at(hidden) / "own").write_text("own")
    os.chown(at("/app/keeper.py"), 1001, 1002)
    at("/app/keeper.py").chmod(0o4750)
    at("/srv").mkdir()
    at("/srv").chmod(0o2770)
    os.mkfifo(at("/srv/pipe"))
    at("/srv/link").symlink_to("pipe")
    for name in ("/srv", "/srv/pipe", "/srv/link"):
        os.chown(at(name), 1001, 1003, follow_symlinks=False)
    at("/srv").chmod(0o2770)
    then = look(running, paths)
    assert then["/etc/group"] is None and then[removed] is None and then[hidden][4] == ["own"]
    commit = saved.snapshot("--files", "tree")["commit"]

    # What was removed is there again, and other things are removed, made and given away.
    at("/etc/group").write_text("made anew\n")
    at("/etc/passwd").unlink()
    at(removed).mkdir()
    (at(removed) / "since").write_text("since")
    shutil.rmtree(at(hidden))
    shutil.rmtree(at(whole))
    os.chown(at("/app/keeper.py"), 0, 0)
    at("/app/keeper.py").write_text("changed\n")
    at("/srv/pipe").unlink()
    at("/srv/link").unlink()
    os.chown(at("/srv"), 0, 0)
    at("/srv/new").write_text("since")
    at("/opt").mkdir()
    now = look(running, paths)

    done = saved.do("rollback", commit, kind="rolled_back")
    running.counts()
    assert look(running, paths) == then
    # The state that was left is a snapshot like any other.
    saved.do("rollback", done["automatic"], kind="rolled_back")
    running.counts()
    assert look(running, paths) == now
    # And once more by the way of a suspend, which takes the layer along if it is asked to.
    saved.do("suspend", "--files", "tree", kind="suspended")
    saved.resume()
    running.counts()
    assert look(running, paths) == now
    saved.do("rollback", commit, kind="rolled_back")
    running.counts()
    assert look(running, paths) == then


@pytest.mark.parametrize("other", ["runc", "containerd-overlayfs", "containerd-native", "podman"], indirect=True)
def test_a_volume_that_is_chosen_belongs_to_a_snapshot_with_all_that_is_in_it(make_daemon, other, tmp_path):
    root = commands_of(make_daemon, other, {})
    chosen, left = tmp_path / "chosen", tmp_path / "left"
    for directory in (chosen, left):
        (directory / "sub").mkdir(parents=True)
        for name in ("kept", "changed", "removed", "sub/deep"):
            (directory / name).write_text(name)
        os.chown(directory / "kept", 1001, 1002)
    settings = only_to_read(other, left, "/settings")
    running = other.counter(mounts=[(chosen, "/data"), (left, "/left")], **settings)
    saved = Saved(root, running)
    for volume in ("/nowhere", "/settings", "/proc"):
        error = root.fails("snapshot", *saved.words, "--files", "tree", "--volume", volume)
        assert error["code"] == "IJ-L015" and f"`{volume}`" in error["message"], error
    running.counts()

    def what(directory):
        files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
        return {str(path.relative_to(directory)): (path.read_text(), path.stat().st_uid, path.stat().st_gid) for path in files}

    then = what(chosen)
    commit = saved.snapshot("--files", "tree", "--volume", "/data")["commit"]
    for directory in (chosen, left):
        (directory / "changed").write_text("since")
        (directory / "removed").unlink()
        shutil.rmtree(directory / "sub")
        (directory / "added/deep").mkdir(parents=True)
        (directory / "added/deep/file").write_text("since")
        os.chown(directory / "kept", 7, 7)
    now, of_others = what(chosen), what(left)
    done = saved.do("rollback", commit, kind="rolled_back")
    running.counts()
    assert what(chosen) == then and not (chosen / "added").exists()
    assert what(left) == of_others
    saved.do("rollback", done["automatic"], kind="rolled_back")
    running.counts()
    assert what(chosen) == now and what(left) == of_others
    if other.label not in ("containerd-overlayfs", "podman"):
        return
    # A second one has a volume of its own, with what the snapshot has.
    told = root.run("branch", *saved.words, "--name", "idea", "--from", commit).one("branched")["branches"][0]
    assert "/left" in told["shared"] and "/data" not in told["shared"], told
    second = Path(f"/proc/{root.sessions()['idea']['pid']}/root/data")
    assert what(second) == then and not (second / "added/deep/file").exists()
    (second / "kept").write_text("by the second one")
    assert what(chosen) == now
    root.run("stop", "--grace", "0", "idea")
    root.run("rm", "--discard-files", "idea")
