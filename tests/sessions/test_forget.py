"""Snapshots are forgotten, their room is freed, and everything that is left comes back as it was."""

import stat

from harness.files import below
from harness.history import History
from harness.proc import until
from harness.session import Commands


def du(daemon, user):
    """Bytes in the user's store."""
    store = daemon.get(f"/v1/store?uid={user.uid}")[1]["path"]
    return sum(facts.st_size for _, facts in below(store) if stat.S_ISREG(facts.st_mode))


def test_what_is_forgotten_is_freed_and_the_rest_comes_back(commands, daemon, history, user):
    session = commands.kernel("k", cwd=user.mkdir(user.home / "work"))
    kernel = session.kernel
    # Mapped and filled in place: what the allocator leaves behind of an older state would be part of a newer one.
    kernel.run("import os, hashlib, mmap; data = mmap.mmap(-1, 16 << 20)")
    commits, sums = [], []
    for step in range(5):
        kernel.run("for at in range(0, 16 << 20, 1 << 16): data[at : at + (1 << 16)] = os.urandom(1 << 16)")
        kernel.run(f"step = {step}; open('f', 'w').write(str(step))")
        sums.append(kernel.value("hashlib.sha1(data).hexdigest()"))
        commits.append(session.snapshot("--files", "tree")["commit"])
    before = du(daemon, user)
    outcome = history.job("/v1/forget", {"commits": [commits[1], commits[2], commits[4]]})
    assert set(outcome["forgotten"]) == {commits[1], commits[2]}
    assert [(kept["commit"], "newest" in kept["reason"]) for kept in outcome["kept"]] == [(commits[4], True)]
    left = [commits[4], commits[3], commits[0]]
    assert [commit["id"] for commit in history.of(session)["commits"]] == left
    assert history.commit(commits[3])["parents"] == [commits[0]]
    for words in (["rollback", "k", commits[1]], ["branch", "k", "--from", commits[2]]):
        assert commands.fails(*words)["code"] == "IJ-L064", words
    # The command line finds snapshots by itself, and says the same in its own words.
    assert commands.fails("tag", "t", commits[1])["code"] == "IJ-C007"

    freed = history.job("/v1/gc")
    assert freed["commits"] == 2 and freed["freed_bytes"] > 24 << 20, freed
    assert before - du(daemon, user) > 24 << 20
    daemon.restart()
    assert [commit["id"] for commit in history.of(session)["commits"]] == left
    for step in (0, 3, 4, 0):
        session.rollback(commits[step], "--force")
        kernel.ready()
        assert kernel.value("step") == step
        assert kernel.value("hashlib.sha1(data).hexdigest()") == sums[step]
        assert kernel.value("open('f').read()") == str(step)
    assert history.job("/v1/gc")["commits"] == 0


def test_tags_and_sleepers_keep_their_snapshots(commands, history):
    session = commands.start("w", "sleep", "1000")
    tagged = session.snapshot("--tag", "good")["commit"]
    session.snapshot()
    asleep = session.suspend()["commit"]
    outcome = history.job("/v1/forget", {"commits": ["good", "w", "w~1"]})
    assert {kept["commit"] for kept in outcome["kept"]} == {tagged, asleep}
    assert len(outcome["forgotten"]) == 1
    assert history.job("/v1/forget", {"commits": [asleep], "force": True})["forgotten"] == []
    assert history.job("/v1/forget", {"commits": ["good"], "force": True})["forgotten"] == [tagged]
    history.job("/v1/gc")
    session.resume()
    assert session.state == "running"
    assert history.ask("POST", "/v1/forget?wait=true", {"commits": ["good"]}, status=404)["code"] == "IJ-L061"


def test_a_branch_outlives_what_it_came_from(commands, history):
    session = commands.start("w", "sleep", "1000")
    origin = session.snapshot()["commit"]
    branch, _ = session.branch("twig", "--from", origin)
    assert history.job("/v1/forget", {"commits": [origin]})["forgotten"] == [], "it is the branch's newest"
    own = branch.snapshot()["commit"]
    later = session.snapshot()["commit"]
    assert history.job("/v1/forget", {"commits": [origin]})["forgotten"] == [origin]
    history.job("/v1/gc")
    found = history.of(session, family=True)
    assert {commit["id"] for commit in found["commits"]} == {own, later}
    assert all(commit["parents"] == [] for commit in found["commits"])
    assert {thread["name"] for thread in found["threads"]} == {"w", "twig"}, "the branch is still known as one"
    branch.rollback(own)
    session.rollback(later)


def test_a_policy_keeps_what_it_must(commands, history, user):
    session = commands.kernel("k", cwd=user.mkdir(user.home / "work"))

    def taken(**body):
        return history.job(f"/v1/sessions/{session.id}/snapshot", {"variables": False, **body})["commit"]

    asked_for = taken()
    automatic = [taken(reason="after-cell") for _ in range(3)]
    labelled = taken(reason="after-cell", label="look")
    tagged = taken(reason="interval", tag="good")
    history.patch(session, policy={"keep": {"last": 2, "hourly": 0, "daily": 0}})
    automatic += [taken(reason="before-cell") for _ in range(3)]
    # The newest is a thread's head, and counts for nothing: the two before it are the newest that could go.
    expected = [automatic[5], automatic[4], automatic[3], tagged, labelled, asked_for]
    until("the policy has kept what it must", lambda: [commit["id"] for commit in history.of(session)["commits"]] == expected, seconds=60)
    for commit in (asked_for, tagged, labelled):
        session.rollback(commit)
        session.kernel.ready()
        assert session.kernel.value("6 * 7") == 42
