"""`diff` says what changed between two snapshots."""


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
