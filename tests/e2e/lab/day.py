"""A day's work in a notebook: cells over much data, with files and plots, and what each of them must have come to.

What is right is found out by running the same cells in this process, without a notebook, a kernel or a history.
"""

import base64
import contextlib
import io
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness import proc

# What a cell changes of the data at a time.
PIECE = 8_000_000 // 8
FIRST = """
import struct, zlib
import numpy
from IPython.display import Image, display

def png(rows):
    rows = numpy.ascontiguousarray(rows, dtype=numpy.uint8)
    part = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    head = struct.pack(">IIBBBBB", rows.shape[1], rows.shape[0], 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\\0" + row.tobytes() for row in rows))
    return b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", head) + part(b"IDAT", body) + part(b"IEND", b"")

def plot(values, height=120):
    bars = numpy.histogram(values, bins=240)[0]
    top = height - bars * height // bars.max()
    display(Image(png(numpy.where(numpy.arange(height)[:, None] < top[None, :], 255, 60))))
"""
# Everything that the cells change, in one line.
CHECK = (
    "print(round(float(data.sum()), 3), sum(1 for _ in open('results.csv')), "
    "sum(len(name) for name in globals() if name.startswith('score_')))"
)


def cells(count: int, megabytes: int) -> list[str]:
    """The cells. Each kind comes again and again."""
    made = [
        FIRST.strip(),
        f"data = numpy.random.default_rng(1).random({megabytes * 1_000_000 // 8})\n"
        "with open('results.csv', 'w') as file:\n    file.write('step,score\\n')\nprint(data.size)",
    ]
    for number in range(2, count):
        at = f"(({number} * {PIECE}) % (data.size - {PIECE}))"
        piece = f"piece = data[{at} : {at} + {PIECE}]"
        made.append(
            [
                f"{piece}\npiece *= 1.0 + {number} / 100\nprint(round(float(piece.mean()), 6))",
                f"score_{number} = round(float(data[::4099].sum()), 6)\nscore_{number}",
                f"with open('results.csv', 'a') as file:\n    print({number}, round(float(data[::1009].mean()), 9), sep=',', file=file)\n"
                "print(open('results.csv').read())",
                f"{piece}\nplot(piece ** 2)",
            ][(number - 2) % 4]
        )
    return made


@dataclass
class Moment:
    """How everything is once a cell has run."""

    text: str
    pictures: list[str]
    results: str
    check: str


@dataclass
class Reference:
    """The cells, run here. `moments[n]` is once `n` of them have run, with the data that `check` looks at from the second on."""

    directory: Path
    names: dict = field(default_factory=lambda: {"__name__": "day"})
    pictures: list = field(default_factory=list)

    def run(self, code: str) -> Moment:
        """One more cell."""
        self.pictures.clear()
        text = self.said(code)
        # What is displayed is kept here instead.
        self.names["display"] = lambda image: self.pictures.append(base64.b64encode(image.data).decode())
        pictures = list(self.pictures)
        results = self.directory / "results.csv"
        if "data" not in self.names:
            return Moment(text, pictures, "", "")
        return Moment(text, pictures, results.read_text(), self.said(CHECK))

    def said(self, code: str) -> str:
        """What code prints, or what its last line is."""
        *body, last = code.split("\n")
        with contextlib.chdir(self.directory), contextlib.redirect_stdout(io.StringIO()) as said:
            if last.isidentifier():
                exec("\n".join(body), self.names)
                print(repr(self.names[last]))
            else:
                exec(code, self.names)
        return said.getvalue().rstrip("\n")


# The page's own clock: from the request to run a cell until its kernel is idle again.
CLOCK = """
path => {
  let kernel = null;
  for (const widget of window.jupyterapp.shell.widgets('main')) {
    if (widget.context && widget.context.path === path) kernel = widget.sessionContext.session.kernel;
  }
  const began = new Map();
  window.cellTimes = {};
  kernel.anyMessage.connect((_, { msg, direction }) => {
    if (direction === 'send' && msg.header.msg_type === 'execute_request') {
      began.set(msg.header.msg_id, { cell: msg.metadata.cellId, at: performance.now() });
    } else if (direction === 'recv' && msg.header.msg_type === 'status' && msg.content.execution_state === 'idle') {
      const start = began.get(msg.parent_header.msg_id);
      if (start) window.cellTimes[start.cell] = performance.now() - start.at;
    }
  });
}"""


def timed(notebook, seed: int, longest: float) -> list[float]:
    """Runs all cells of a notebook as a person does who looks at each for a moment: how long each took, in ms."""
    notebook.tab.page.evaluate(CLOCK, notebook.path)
    dice = random.Random(seed)
    ids = [cell["id"] for cell in notebook.cells()]
    for index in range(len(ids)):
        notebook.run(index, 300)
        time.sleep(dice.uniform(longest / 10, longest))
    times = proc.until("all cells have been timed", lambda: len(found := cell_times(notebook)) == len(ids) and found, 20)
    return [times[cell] for cell in ids]


def cell_times(notebook) -> dict:
    return notebook.tab.page.evaluate("() => window.cellTimes")


def size() -> tuple[int, int]:
    """Cells, and MB of data; a day of the usual length is 40 over 600."""
    count, megabytes = os.environ.get("INFINIJUP_DAY", "10x60").split("x")
    return int(count), int(megabytes)
