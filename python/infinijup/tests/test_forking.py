"""What `fork` and `gather` do by themselves; with a daemon they are in tests/sessions/test_python_api.py."""

import pickle

import pytest

import infinijup
from infinijup import forking, names
from infinijup.asking import Unheard


@pytest.fixture
def family(tmp_path, monkeypatch):
    family = forking._Family("fork-0123abcd", str(tmp_path), 2)
    monkeypatch.setattr(forking, "_family", family)
    return family


def test_a_branch_knows_its_number_by_its_name():
    fork = names.new_fork("0123abcd4567")
    assert names.is_session(f"{fork}-64") and names.is_of_a_fork(f"{fork}-64")
    assert [names.fork_number(name, fork) for name in (fork, f"{fork}-3", "fork-76543210-3", "analysis")] == [1, 3, None, None]
    assert not names.is_of_a_fork("fork-lift") and not names.is_of_a_fork("my-fork-0123abcd")


def test_outside_of_a_kernel_there_is_nobody_to_ask():
    for ask in (infinijup.snapshot, infinijup.attempt().__enter__, lambda: infinijup.fork(2)):
        with pytest.raises(Unheard, match="ipykernel"):
            ask()
    with pytest.raises(RuntimeError, match="no branches"):
        infinijup.gather()
    with pytest.raises(ValueError, match="1 to 64"):
        infinijup.fork(0)


def test_a_result_is_handed_in_whole_or_as_an_error(family, monkeypatch):
    monkeypatch.setattr(forking, "LARGEST", 1000)
    for number, value in ((1, b"x" * 2000), (2, [1, 2])):
        family.number = number
        with pytest.raises(forking.BranchDone):
            infinijup.gather(value)
    family.number = 0
    results, errors = forking._wait(family, 0)
    assert results == {2: [1, 2]} and errors[1][0].startswith("its result has 20")


def test_missing_results_are_named_and_can_be_waited_for_again(family):
    with pytest.raises(TimeoutError, match="branch 1, 2 within 0 s"):
        infinijup.gather(timeout=0)
    for number in (1, 2):
        family.number = number
        forking._write(family, pickle.dumps((True, number)))
    family.number = 0
    assert forking._wait(family, 0) == ({1: 1, 2: 2}, {})


@pytest.mark.parametrize(("workspace", "place"), [("/home/ada", "/tmp"), ("/tmp", "/var/tmp"), ({"hex": b"/tmp".hex()}, "/var/tmp")])
def test_results_lie_where_branches_have_no_copy(workspace, place):
    assert forking._shared_place(workspace) == place


def test_a_workspace_that_is_everything_leaves_no_place():
    with pytest.raises(RuntimeError, match="no place outside"):
        forking._shared_place("/")
