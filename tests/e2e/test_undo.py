"""A day with a history that nobody thinks of: no snapshot is asked for, and every cell can be taken back."""

import statistics
import time

import pytest

from harness import proc
from lab.by_itself import after_cells, look, numbers, run, undo

pytestmark = pytest.mark.timeout(600)

PICTURE = """
def png(width, height, level):
    rows = b"".join(b"\\0" + bytes((x * level) & 255 for x in range(width)) for _ in range(height))
    part = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")
Image(png(96, 64, round(model["w"])))
"""
DAY = [
    "import os, struct, zlib\nfrom IPython.display import Image\nlog = open('day.log', 'a', buffering=1)",
    "data = bytearray(bytes(range(256)) * (24 << 12))\nlen(data)",
    "total = sum(data[::4099])\nprint('total', total)",
    "log.write('loaded\\n')",
    "rows = [data[at : at + 1024] for at in range(0, len(data), 1 << 16)]\nlen(rows)",
    "model = {'w': 0.0}",
    "for step in range(50):\n    model['w'] += 0.1\nprint('w', round(model['w'], 3))",
    PICTURE.strip(),
    "log.write('trained\\n')\nprint('trained')",
    "data[:] = bytes(len(data))\nprint('cleaned', sum(data[::4099]))",
    "del model\nprint('no model')",
    "log.write('oops\\n')\ndata = None\nprint('oops')",
    "print(total, len(rows), 'model' in globals() and round(model['w'], 3), data and sum(data[::4099]))",
]
# How long a cell took from the page to its first line.
LATE = "import time\nlate = time.time() - get_ipython().kernel.get_parent()['header']['date'].timestamp()\nprint(late)"


@pytest.fixture
def day(daemon, user, make_lab, open_notebook):
    # On a machine that tests keep busy a kernel stands for longer than the 100 ms that are allowed by themselves.
    lab = make_lab(daemon, user, by_itself={"snapshotPauseMilliseconds": 3000})
    return open_notebook(lab, "day.ipynb", *DAY)


def test_a_day_without_a_click_on_snapshot(day):
    log = day.lab.root / "day.log"
    before = []
    for index in range(12):
        before.append(look(day))
        run(day, index, index + 1)
    after = look(day)
    assert "image/png" in after[7][2][0]["data"]
    pauses = sorted(commit["frozen_us"] / 1000 for commit in after_cells(day))
    print(f"pauses: median {statistics.median(pauses):.0f} ms, most {pauses[-1]:.0f} ms")
    marks = day.tab.page.locator(".infinijup-CellMark")
    proc.until("cells are marked", lambda: marks.count() == 12, 20)
    day.tab.shot("day")

    # The last one. What was typed into it meanwhile stays.
    day.set_source(11, DAY[11] + "  # never again")
    undo(day, 12)
    assert log.read_text() == "loaded\ntrained\n"
    assert look(day)[:11] == before[11][:11]
    assert look(day)[11] == (DAY[11] + "  # never again", None, [])
    assert run(day, 12, 12).split()[2:] == ["False", "0"]
    day.set_source(11, DAY[11])

    # And three more, with the one that looked.
    for number in (12, 11, 10, 9):
        undo(day, number)
    assert log.read_text() == "loaded\n"
    assert look(day)[:13] == before[8]
    assert run(day, 12, 9).split()[2] == "5.0"
    undo(day, 9)
    day.tab.shot("undone")

    # From the seventh cell again.
    mark = marks.nth(6)
    assert "before [7]" in mark.get_attribute("title")
    mark.click()
    day.tab.shot("menu")
    day.tab.page.locator(".lm-Menu-item", has_text="Run from Here Again").click()
    proc.until("all of them have run", lambda: day.cells()[12]["count"] == 13 and not day.running(), 90)
    assert look(day)[:12] == after[:12]
    assert log.read_text() == "loaded\ntrained\noops\n"
    assert day.output(12).split()[2:] == ["False", "None"]


def test_the_first_cell_has_nothing_before_it(day):
    run(day, 0, 1)
    day.tab.press_toolbar("infinijup-undo-cell")
    dialog = day.tab.page.locator(".jp-Dialog")
    proc.until("it is said", lambda: "No snapshot before [1]" in dialog.inner_text(), 20)
    day.tab.shot("nothing")
    dialog.locator(".jp-mod-reject").click()


def test_cells_are_not_late(day):
    def lateness():
        found = [float(day.execute(LATE)) for _ in range(12)]
        return statistics.median(found[2:]), max(found)

    with_snapshots = lateness()
    day.lab.request("PUT", "/infinijup/policy", {"policy": {"after_cell": False}})
    without = lateness()
    middle, most = (f"{seconds * 1e3:.0f} ms" for seconds in with_snapshots)
    print(f"a cell begins after {middle} (median), {most} at most; without snapshots after {without[0] * 1e3:.0f} ms")
    assert len(numbers(day)) >= 6
    assert with_snapshots[0] - without[0] < 0.3
    assert with_snapshots[1] < 1.5 + without[1]


def test_run_all_of_quick_cells_stays_quick(day):
    for number in range(13):
        day.set_source(number, f"x{number} = {number}")
    day.select(0)
    began = time.monotonic()
    day.tab.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    proc.until("all have run", lambda: day.cells()[12]["count"] == 13 and not day.running(), 60, pause=0.02)
    took = time.monotonic() - began
    print(f"13 quick cells: {took:.2f} s, snapshots after {numbers(day)}")
    assert took < 4
    proc.until("the last one has a snapshot", lambda: 13 in numbers(day), 30)
    assert len(numbers(day)) < 13
