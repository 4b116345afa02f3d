"""Variable by variable with dill, after each cell: what somebody writes who has no other tool. What cannot be saved is left out."""

import pathlib
import types

import dill

PLACE = pathlib.Path("saved")
cells = 0


def mine(names):
    """The user's own."""
    hidden = {"In", "Out", "exit", "quit", "get_ipython", "open"}
    return {name: value for name, value in names.items() if not (name.startswith("_") or name in hidden or isinstance(value, types.ModuleType))}


def install(shell):
    """From here on, after each cell."""
    shell.events.register("post_run_cell", lambda _: save(shell.user_ns))


def save(names):
    """One file for each variable."""
    global cells
    cells += 1
    place = PLACE / str(cells)
    place.mkdir(parents=True)
    for name, value in mine(names).items():
        file = place / name
        try:
            with open(file, "wb") as opened:
                dill.dump(value, opened)
        except Exception:
            file.unlink(missing_ok=True)


def undo(names, cell):
    """Those of after a cell."""
    saved = {file.name: file for file in (PLACE / str(cell)).iterdir()}
    for name in mine(names).keys() - saved.keys():
        del names[name]
    for name, file in saved.items():
        with open(file, "rb") as opened:
            names[name] = dill.load(opened)
