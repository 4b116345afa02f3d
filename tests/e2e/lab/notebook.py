"""A notebook in a tab: its cells, their prompts and outputs, its kernel."""

import json
import time

from harness import proc


def text_of(outputs) -> str:
    """What a cell printed, returned or raised, as text."""
    parts = []
    for output in outputs:
        if output["output_type"] == "stream":
            parts.append(output["text"] if isinstance(output["text"], str) else "".join(output["text"]))
        elif output["output_type"] == "error":
            parts.append(f"{output['ename']}: {output['evalue']}")
        else:
            plain = output["data"].get("text/plain", "")
            parts.append(plain if isinstance(plain, str) else "".join(plain))
    return "\n".join(part.rstrip("\n") for part in parts)


class Notebook:
    """One notebook as one tab shows it."""

    def __init__(self, tab, path: str):
        self.tab, self.path = tab, path

    @property
    def lab(self):
        """Its server."""
        return self.tab.lab

    def ask(self, what: str, *arguments):
        """A function of page.js about this notebook."""
        return self.tab.page.evaluate("([what, words]) => window.tests[what](...words)", [what, [self.path, *arguments]])

    def cells(self) -> list[dict]:
        """All cells, also those that are out of sight."""
        found = self.ask("cells")
        assert found is not None, f"{self.path} is not open"
        return found

    def is_open(self) -> bool:
        """Whether the tab shows it and its cells are there."""
        return bool(self.ask("cells"))

    def kernel(self) -> dict | None:
        """Id, status and connection of its kernel as the page has them."""
        return self.ask("kernel")

    def connected(self, seconds: float = 60) -> "Notebook":
        """Waits until the kernel is there: the ring in the toolbar says idle before there is one."""

        def both():
            if not self.is_open():
                return False
            page, server = self.kernel(), self.lab.session_of(self.path)
            return (
                page and page["connection"] == "connected" and page["status"] == "idle"
                and server and server["kernel"]["execution_state"] == "idle" and server["kernel"]["connections"] > 0
            )  # fmt: skip

        proc.until(f"{self.path} is connected to a kernel", both, seconds, pause=0.1)
        return self

    def select(self, index: int) -> int:
        """Makes a cell the active one, in command mode; how often it has ended so far."""
        count = len(self.cells())
        index = index if index >= 0 else count + index
        ended = self.ask("select", index)
        # Not for ever: a dialog that says the server is away keeps them, and cells are looked at all the same.
        deadline = time.monotonic() + 5
        while not self.ask("hasKeys") and time.monotonic() < deadline:
            time.sleep(0.02)
        return ended

    def start(self, index: int) -> tuple[str, int]:
        """Runs a cell with Shift+Enter and does not wait; what `finish` wants to know."""
        cells = self.cells()
        index = index if index >= 0 else len(cells) + index
        ended = self.select(index)
        self.tab.press("Shift+Enter")
        return cells[index]["id"], ended

    def cell(self, cell_id: str) -> dict:
        """One cell."""
        return next(cell for cell in self.cells() if cell["id"] == cell_id)

    def finish(self, started: tuple[str, int], seconds: float = 60) -> str:
        """Waits until the cell has ended; its output."""
        cell_id, before = started

        def ended():
            cell = self.cell(cell_id)
            return cell["ended"] > before and not is_running(cell) and cell

        try:
            cell = proc.until(f"cell {cell_id} of {self.path} ends", ended, seconds, pause=0.05)
        except AssertionError as waited:
            raise AssertionError(f"{waited}: {json.dumps(self.cell(cell_id))[:600]}, {self.kernel()}") from None
        return text_of(cell["outputs"])

    def run(self, index: int, seconds: float = 60) -> str:
        """Runs a cell that is there and waits for its end; its output."""
        return self.finish(self.start(index), seconds)

    def add(self, code: str) -> int:
        """Types a new cell at the end; its place."""
        self.select(-1)
        cells = self.cells()
        if cells[-1]["source"] or cells[-1]["count"] is not None or is_running(cells[-1]):
            self.tab.press("b")
            proc.until("there is a new cell", lambda: len(self.cells()) > len(cells), 5)
            self.select(-1)
        self.tab.press("Enter")
        self.tab.page.keyboard.insert_text(code)
        proc.until("the cell has what was typed", lambda: self.cells()[-1]["source"] == code, 5)
        self.tab.press("Escape")
        return len(self.cells()) - 1

    def execute(self, code: str, seconds: float = 60) -> str:
        """Types a cell, runs it, waits; its output."""
        return self.run(self.add(code), seconds)

    def begin(self, code: str) -> tuple[str, int]:
        """Types a cell and runs it; does not wait."""
        return self.start(self.add(code))

    def output(self, index: int) -> str:
        """Of a cell, as it is now."""
        return text_of(self.cells()[index]["outputs"])

    def running(self) -> list[dict]:
        """Cells at `[*]`."""
        return [cell for cell in self.cells() if is_running(cell)]

    def quiet(self, seconds: float = 60) -> None:
        """Waits until no cell is at `[*]` and the page takes the kernel for idle."""
        proc.until(
            f"no cell of {self.path} is at [*]", lambda: not self.running() and (self.kernel() or {}).get("status") == "idle",
            seconds, pause=0.05,
        )  # fmt: skip

    def save(self) -> None:
        """Control+S, and waits until the file is written."""
        self.select(-1)
        self.tab.press("Control+s")
        proc.until(f"{self.path} is saved", lambda: not self.ask("isDirty"), 20)

    def activate(self) -> None:
        """Brings its tab to the front, and waits until toolbar and side bar are its own."""

        def is_current():
            self.ask("activate")
            return self.ask("isCurrent")

        proc.until(f"{self.path} is the current notebook", is_current, 10, pause=0.05)

    def set_source(self, index: int, source: str) -> None:
        """Another text for a cell, at once."""
        self.ask("setSource", index, source)


def is_running(cell: dict) -> bool:
    """Whether a cell stands at `[*]`."""
    return cell["state"] == "running" or "*" in (cell["prompt"] or "")
