"""Pushed on one machine, cloned and restored on another, through a real S3 server: the same variables, files and notebook."""

import pytest

from harness.two_hosts import MIB, NOTEBOOK, TwoHosts

STATE = """
import hashlib, os, random
numbers = random.Random(7)
values = [numbers.random() for _ in range(1000)]
array = bytearray(numbers.randbytes(4 << 20))
os.makedirs('data/deep', exist_ok=True)
open('data/deep/table.csv', 'w').write('a,b\\n1,2\\n')
log = open('run.log', 'a'); log.write('first\\n'); log.flush()
def look():
    files = sorted((path, name, open(os.path.join(path, name)).read()) for path, _, names in os.walk('.') for name in names if name != 'paper.ipynb')
    return sum(values), hashlib.sha256(array).hexdigest(), files, log.tell(), os.getcwd(), numbers.random()
"""


@pytest.fixture
def two(record, make_user, make_daemon):
    made = TwoHosts(record, make_user(), make_daemon)
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_what_was_pushed_here_comes_up_there_as_it_was(two):
    session = two.kernel("analysis")
    assert two.here.value(session, "len(array)", STATE) == 4 * MIB
    session.snapshot("--tag", "good")
    # The state that the snapshot has; its own generator of random numbers goes on as this one does.
    expected = two.here.value(session, "look()")
    two.push("two-hosts")
    two.here.value(session, "1", "array[:65536] = numbers.randbytes(65536); values.append(1.0)")
    session.snapshot("--tag", "child")
    child = two.here.value(session, "look()")
    assert child != expected
    new, sent = two.push("two-hosts")
    assert sent <= 1.2 * new + MIB, f"{sent} bytes were sent for {new} new ones"
    session.stop()
    session.remove()

    two.clone("two-hosts")
    moved = two.come_up("good")
    assert two.there.value(moved, "look()") == expected
    assert two.notebook("good") == NOTEBOOK == two.there.value(moved, "open('paper.ipynb').read()")
    later = two.come_up("child")
    assert two.there.value(later, "look()") == child
    # It is a session like others there.
    moved.suspend()
    moved.resume()
    assert two.there.value(moved, "len(values), len(array)") == (1000, 4 * MIB)
