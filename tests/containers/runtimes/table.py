"""What works with which runtime, files and volume: told by the tests that show it, and held against the table in docs/containers.md.

A test says what it has shown, in one line at its end:

    shown(runtime, "suspend and resume")
    shown(runtime, "snapshot", volume="tmpfs")
    shown(runtime, "branch", refused="IJ-L015")

The table is printed after every run. When all tests of this directory have run and passed, it must be what the document says; with
INFINIJUP_UPDATE=1 it is written there.
"""

from pathlib import Path

DOCUMENT = Path(__file__).parents[3] / "docs/containers.md"
BEGIN, END = "<!-- what the tests have shown: begin -->", "<!-- what the tests have shown: end -->"
# Columns and volumes in the order in which they are printed. A word that is not here is a typing error.
OPERATIONS = (
    "detect", "snapshot", "suspend and resume", "roll back", "let go and held again", "with two GPUs", "in a pod",
    "in podman's network", "branch", "on another host", "checkpoint archives",
)  # fmt: skip
VOLUMES = ("bind", "bind, read only", "tmpfs", "named volume", "none")
RUNTIMES = ("runc", "crun", "containerd", "podman")
YES = "yes"


class Table:
    """Cells: a runtime, its files and a volume, by what was done."""

    def __init__(self):
        self.cells = {}
        # Tests that did not pass, for whatever reason.
        self.missed = []

    def shown(self, runtime, operation, volume="bind", refused=None):
        """Notes a cell. `refused` is the code of the error, if that is what was shown."""
        assert operation in OPERATIONS, operation
        assert volume in VOLUMES, volume
        result = refused or YES
        before = self.cells.setdefault((runtime.kind, runtime.files, volume, operation), result)
        assert before == result, f"{runtime.label}, {volume}, {operation}: another test has shown {before}, and this one {result}"

    def lines(self):
        """As the document has it."""
        if not self.cells:
            return []
        done = [one for one in OPERATIONS if any(cell[3] == one for cell in self.cells)]
        rows = {cell[:3] for cell in self.cells}
        order = sorted(rows, key=lambda row: (RUNTIMES.index(row[0]), row[1], VOLUMES.index(row[2])))
        head = ["runtime", "files", "volume", *done]
        lines = [line(head), line(["---"] * len(head))]
        return lines + [line([*row, *(linked(self.cells.get((*row, one), "")) for one in done)]) for row in order]

    def hold_against(self, document, update):
        """Fails if the document says something else; with `update` that is mended."""
        text = document.read_text()
        before, begin, rest = text.partition(BEGIN)
        says, end, after = rest.partition(END)
        assert begin and end, f"{document} has no place for the table: {BEGIN} … {END}"
        new = "\n".join(["", *self.lines(), ""])
        if update and says != new:
            document.write_text(before + begin + new + end + after)
            return
        assert says == new, f"{document} says something else than the tests have shown: run all of them with INFINIJUP_UPDATE=1"


def line(cells):
    return f"| {' | '.join(cells)} |"


def linked(result):
    """A code leads to its page."""
    return f"[{result}](errors/{result}.md)" if result.startswith("IJ-") else result
