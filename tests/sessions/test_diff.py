"""`diff` says what changed between two snapshots."""

from urllib.parse import urlencode


def test_diff_tells_memory_files_and_processes(commands, user):
    session = commands.kernel("k", cwd=user.mkdir(user.home / "work"))
    session.kernel.run("import numpy, subprocess; a = numpy.zeros(8 << 20, dtype=numpy.uint8); a[:] = 1; f = open('f', 'w'); f.write('one'); f.flush()")
    first = session.snapshot()["commit"]
    session.kernel.run("a[:4 << 20] = 2; f.write('two'); f.flush(); child = subprocess.Popen(['sleep', '1000'])")
    second = session.snapshot()["commit"]
    diff = commands.run("diff", first, second).one("diff")
    # The array itself, to the page; beside it what a kernel touches when it runs a cell and starts a process, which was 4 MiB.
    changed = max(item["changed_bytes"] for item in diff["memory"])
    assert 4 << 20 <= changed <= (4 << 20) + 8192
    assert changed <= diff["totals"]["memory_bytes"] < 12 << 20
    assert [item["change"] for item in diff["files"] if item["path"].endswith("/f") or item["path"] == "f"] == ["changed"]
    assert [(item["name"], item["change"]) for item in diff["processes"]] == [("sleep", "added")]
    back = commands.run("diff", second, first).one("diff")
    assert [(item["name"], item["change"]) for item in back["processes"]] == [("sleep", "removed")]
    same = commands.run("diff", first, first).one("diff")
    assert same["totals"]["memory_bytes"] == 0 and not same["files"] and not same["processes"]


def test_the_text_of_a_file_is_what_it_was_and_a_path_leads_nowhere_else(commands, user):
    work = user.mkdir(user.home / "work")
    user.write(work / "notes.txt", "one\ntwo\n")
    user.run(["/bin/sh", "-c", "ln -s /etc/passwd link; ln -s . here; printf '\\000\\001' >binary; head -c 1048577 /dev/zero | tr '\\000' x >long"], cwd=work)
    session = commands.kernel("k", options=("--files", "workspace"), cwd=work)
    first = session.snapshot()["commit"]
    user.write(work / "notes.txt", "one\nthree\n")
    second = session.snapshot()["commit"]

    def text(commit, path):
        return commands.daemon.get(f"/v1/commits/{commit}/file?{urlencode({'path': path})}")

    for path in ("notes.txt", str(work / "notes.txt")):
        assert [text(commit, path)[1]["text"] for commit in (first, second)] == ["one\ntwo\n", "one\nthree\n"]
    assert [(text(first, path)[1]["bytes"], text(first, path)[1]["text"]) for path in ("binary", "long")] == [(2, None), (1048577, None)]
    for path in ("link", "/etc/passwd", "here/notes.txt", "../work/notes.txt", f"{work}/../work/notes.txt", "", "/", ".", "none", "x" * 5000):
        assert text(first, path)[0] == 400, path
