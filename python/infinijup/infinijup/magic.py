"""`%infinijup` in IPython kernels: snapshots from within the notebook.

What is said here is said to the daemon by way of the kernel's own channels, see `asking`. Everything is shown as plain text.
"""

import re
import time
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher
from IPython.core.magic import Magics, line_cell_magic, magics_class

from infinijup import verbs
from infinijup.asking import LONG, SHORT, AskError, Restored, Unheard, line_of

_FRESH = 5.0
# The daemon's code for an expression that leads to no snapshot, and how far back labels are looked for.
_NO_SNAPSHOT, _SEARCHED = "IJ-L061", 1000
_LINE = re.compile(r"\s*(?:\w+\s*=\s*)?(?P<kind>%%?)infinijup\s+(?P<words>.*)")
# A command in what the daemon advises, and the verbs of the magic that do the same.
_COMMAND = re.compile(r"`infinijup (?P<command>[a-z-]+)(?P<words>[^`]*)`")
_SAME = {"history": "log", "log": "log", "rollback": "restore", "snapshot": "snapshot", "branch": "branch", "suspend": "suspend"}

_magics: "InfinijupMagics | None" = None


def load(shell: Any) -> None:
    """Registers the magic and its completion. Loading twice is no error."""
    global _magics
    if _magics is not None:
        unload(_magics.shell)
    _magics = InfinijupMagics(shell)
    shell.register_magics(_magics)
    shell.Completer.custom_matchers.append(_magics.matcher)


def unload(shell: Any) -> None:
    """Takes it away."""
    global _magics
    if _magics is None:
        return
    if _magics.matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(_magics.matcher)
    _magics.close()
    _magics = None
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("infinijup", None)


class Answer(dict):
    """What the daemon answered, for `answer = %infinijup …`. Shows nothing by itself: it was printed already."""

    def _ipython_display_(self) -> None:
        pass


class NoResult(AskError):
    """What is shown in red: one sentence, no traceback."""

    def __init__(self, message: str, code: str = "", hint: str | None = None):
        super().__init__(message, code, hint and in_a_notebook(hint))

    def _render_traceback_(self) -> list[str]:
        return [f"infinijup: {self}"]


@magics_class
class InfinijupMagics(Magics):
    """The magic of one shell."""

    def __init__(self, shell: Any):
        super().__init__(shell)
        self.line = line_of(getattr(shell, "kernel", None))
        self.names: list[str] = []
        self.asked_at = float("-inf")

    def close(self) -> None:
        """Hears no replies any more."""
        if self.line:
            self.line.close()

    @line_cell_magic
    def infinijup(self, line: str, cell: str | None = None) -> Answer | None:
        """Snapshots of this kernel: `%infinijup help`."""
        try:
            verb, given = verbs.parse(line, cell is not None)
            if verb.name == "help":
                print(verbs.help_text(given.get("verb")))
                return None
            if verb.name == "try":
                return self.do_try(cell or "", **given)
            return getattr(self, f"do_{verb.name}")(**given)
        except verbs.UsageMistake as mistake:
            raise NoResult(str(mistake)) from None
        except AskError as error:
            raise NoResult(error.message, error.code, error.hint) from None
        except Restored as restored:
            print(told(restored))
            return Answer(restored=restored.commit, note=restored.note)

    def ask(self, do: str, seconds: float = SHORT, /, **arguments: Any) -> Any:
        """Asks the daemon."""
        if self.line is None:
            raise Unheard("only kernels of ipykernel can ask for snapshots from within")
        return self.line.ask(do, seconds, **arguments)

    def ask_long(self, do: str, /, **arguments: Any) -> Any:
        """The same for what may take long, once it is sure that somebody listens."""
        self.ask("status")
        return self.line.ask_long(do, **arguments)

    def ask_about(self, do: str, key: str, arguments: dict[str, Any]) -> Any:
        """The same for what names a snapshot as `key`. What the daemon does not know may be a label: of the newest that has it."""
        try:
            return self.ask_long(do, **arguments)
        except AskError as error:
            if error.code != _NO_SNAPSHOT or arguments.get(key) is None:
                raise
            commits = self.ask("log", limit=_SEARCHED)["commits"]
            found = next((commit["id"] for commit in commits if commit.get("label") == arguments[key]), None)
            if found is None:
                raise
            return self.ask(do, LONG, **{**arguments, key: found})

    def do_status(self) -> Answer:
        view = self.ask("status")
        head = view.get("head")
        memory = f", {amount(view['memory_bytes'])}" if view.get("memory_bytes") else ""
        memory += f", {amount(view['vram_bytes'])} on the GPU" if view.get("vram_bytes") else ""
        print(f"session {view['name']}: {view['state']}{memory}; " + (f"newest snapshot {head[:12]}" if head else "no snapshot yet"))
        return Answer(view)

    def do_snapshot(self, **given: str) -> Answer:
        taken = self.ask_long("snapshot", **given)
        self.forget_names()
        frozen = taken.get("frozen_us", 0) / 1000
        print(f"snapshot {taken['commit'][:12]}: {amount(taken.get('new_bytes', 0))} new, stood still for {frozen:.0f} ms")
        for left_out in taken.get("not_captured", []):
            print(f"not in it: {text(left_out['path'])}: {left_out['reason']}")
        for warning in taken.get("warnings", []):
            print(f"warning: {warning}")
        return Answer(taken)

    def do_mark(self, label: str) -> Answer:
        view = self.ask("mark", mark=label)
        print(f"the next snapshot will be labelled {label!r}")
        return Answer(view or {})

    def do_log(self, limit: str = "10") -> Answer:
        if not limit.isdecimal() or int(limit) == 0:
            raise verbs.UsageMistake(f"`log` takes a number of snapshots, not `{limit}`")
        answer = self.ask("log", limit=int(limit))
        commits = answer["commits"][: int(limit)]
        self.learn_names(commits)
        for commit in commits:
            words = [commit["id"][:12], commit["time"][:19].replace("T", " ")]
            words += [
                commit.get("label") or commit.get("message") or f"({commit['reason']})",
                *(f"#{tag}" for tag in commit.get("tags", [])),
            ]
            print("  ".join(words))
        if not commits:
            print("no snapshot yet: `%infinijup snapshot` takes one")
        return Answer(answer)

    def do_restore(self, to: str, force: bool = False, no_files: bool = False) -> Answer:
        # If it is done, nobody is left to hear so: this process ends, and the one of the snapshot goes on.
        return Answer(self.ask_about("restore", "to", {"to": to, "force": force, "files": not no_files}) or {})

    def do_branch(self, **given: str) -> Answer:
        answer = self.ask_about("branch", "from", given)
        self.forget_names()
        for branch in answer["branches"]:
            print(f"branch {branch['session']['name']} goes on from {branch['commit'][:12]}")
        return Answer(answer)

    def do_suspend(self) -> Answer:
        return Answer(self.ask_long("suspend") or {})

    def do_tag(self, name: str, commit: str | None = None, move: bool = False) -> Answer:
        tagged = self.ask_about("tag", "commit", {"name": name, "commit": commit, "move": move})
        self.forget_names()
        print(f"{name} is {tagged['id'][:12]}")
        return Answer(tagged)

    def do_try(self, cell: str, label: str | None = None, force: bool = False, **more: bool) -> Answer | None:
        """Here a cell is in two lives: the one that takes the snapshot and runs the code, and the one that is brought back by it."""
        first = next((line.strip() for line in cell.splitlines() if line.strip()), "")
        try:
            taken = self.ask_long("snapshot", label=label or f"try: {first}"[:80])
        except Restored as restored:
            if restored.note is None:
                raise
            if more.get("raise"):
                raise NoResult(told(restored)) from None
            print(told(restored))
            return Answer(restored=restored.commit, note=restored.note)
        self.forget_names()
        result = self.shell.run_cell(cell)
        error = result.error_in_exec
        if error is None:
            # A cell that could not even begin has changed nothing.
            return None
        note = f"{type(error).__name__}: {error}"[:1000]
        try:
            self.ask("restore", LONG, to=taken["commit"], force=force, files=True, note=note)
        except AskError as refused:
            raise NoResult(f"the cell raised, and was not rolled back: {refused.message}", refused.code, refused.hint) from None
        return None

    # Completion.

    @context_matcher(priority=100)
    def matcher(self, context: Any) -> dict[str, Any]:
        """For IPython: on a line of ours nothing but our own words makes sense."""
        found = _LINE.match(context.text_until_cursor)
        if found is None:
            return {"completions": []}
        *words, last = re.split(r"\s+", found["words"])
        candidates = self.candidates(words, found["kind"] == "%%")
        fitting = [SimpleCompletion(text=word, type="magic") for word in candidates if word.startswith(last)]
        return {"completions": fitting, "matched_fragment": last, "suppress": True, "ordered": True}

    def candidates(self, words: list[str], is_cell: bool) -> list[str]:
        """What may follow `words`: verbs, what they take, tags and ids."""
        if not words:
            return [name for name, verb in verbs.VERBS.items() if verb.is_cell == is_cell]
        verb = verbs.VERBS.get(words[0])
        if verb is None:
            return []
        if verb.name == "help":
            return list(verbs.VERBS)
        found = [f"{name}=" for name in verb.named if name != verb.rest] + [f"--{flag}" for flag in verb.flags]
        if verb.name == "restore" and len(words) == 1:
            return [*self.known_names(), *found]
        if verb.name in ("branch", "tag"):
            found += [f"{'from' if verb.name == 'branch' else 'commit'}={name}" for name in self.known_names()]
        return found

    def known_names(self) -> list[str]:
        """Tags and recent ids; asked for if that is long ago, and done without if nobody answers at once."""
        if time.monotonic() - self.asked_at > _FRESH:
            try:
                self.learn_names(self.ask("log", 1.0, limit=30)["commits"])
            except (AskError, Restored):
                self.asked_at = time.monotonic()
        return self.names

    def learn_names(self, commits: list[dict[str, Any]]) -> None:
        """Of a listing, newest first."""
        tags = [tag for commit in commits for tag in commit.get("tags", [])]
        self.names = [*tags, *(commit["id"][:12] for commit in commits)]
        self.asked_at = time.monotonic()

    def forget_names(self) -> None:
        """Something has changed."""
        self.asked_at = float("-inf")


def in_a_notebook(hint: str) -> str:
    """Advice that was given to somebody at a terminal: what the magic does is said with it, and the rest is done there."""

    def said(found: re.Match[str]) -> str:
        verb = _SAME.get(found["command"])
        return f"`%infinijup {verb}{found['words']}`" if verb else f"{found[0]} in a terminal"

    return _COMMAND.sub(said, hint)


def told(restored: Restored) -> str:
    """What to say in a kernel that lives again."""
    if restored.note is not None:
        return f"rolled back to snapshot {restored.commit[:12]}, as before this cell, because it raised {restored.note}"
    where = f"session {restored.session}, " if restored.session else ""
    return f"restored: {where}snapshot {restored.commit[:12]}"


def amount(count: int) -> str:
    """Bytes for people."""
    value, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def text(value: str | dict[str, str]) -> str:
    """A path of the wire, for people."""
    return bytes.fromhex(value["hex"]).decode(errors="replace") if isinstance(value, dict) else value
