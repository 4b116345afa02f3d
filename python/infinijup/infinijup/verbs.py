"""The words after `%infinijup`: which there are, what they take, and help for whoever mistypes one."""

import difflib
import shlex
from dataclasses import dataclass, field
from typing import Any


class UsageMistake(Exception):
    """What was typed makes no sense; the message says what would."""


@dataclass(frozen=True)
class Verb:
    """One of them. The words that carry no name are taken for `rest`, all together."""

    name: str
    summary: str
    rest: str | None = None
    is_needed: bool = False
    # Given as name=value, with what it is for.
    named: dict[str, str] = field(default_factory=dict)
    # Given as --name, with what it does.
    flags: dict[str, str] = field(default_factory=dict)
    is_cell: bool = False

    def usage(self) -> str:
        """One line."""
        parts = [f"{'%%' if self.is_cell else '%'}infinijup", self.name]
        if self.rest:
            parts.append(self.rest.upper() if self.is_needed else f"[{self.rest.upper()}]")
        parts += [f"[{name}=…]" for name in self.named if name != self.rest] + [f"[--{flag}]" for flag in self.flags]
        return " ".join(parts)


_FORCE = {"force": "go on although somebody else changed files that would be overwritten"}
_LABEL = "what the history shows"

VERBS = {
    verb.name: verb
    for verb in (
        Verb("status", "how this kernel's session is, and its newest snapshot"),
        Verb(
            "snapshot",
            "take a snapshot; the kernel goes on",
            "label",
            named={"label": _LABEL, "message": "more words", "tag": "a name for it"},
        ),
        Verb("mark", "give the next snapshot a label, whoever takes it", "label", True, named={"label": _LABEL}),
        Verb("log", "the newest snapshots", "limit", named={"limit": "how many; 10 if not given"}),
        Verb(
            "restore",
            "go back to a snapshot; how things are now is kept as another one",
            "to",
            True,
            flags={**_FORCE, "no-files": "leave files"},
        ),
        Verb(
            "branch",
            "a second kernel that goes on from here, or from a snapshot",
            "name",
            named={"name": "of the branch", "from": "a snapshot"},
        ),
        Verb("suspend", "put this kernel to sleep; running a cell wakes it up"),
        Verb(
            "tag",
            "give a snapshot a name; the newest one if none is said",
            "name",
            True,
            named={"commit": "a snapshot"},
            flags={"move": "take the name away from another"},
        ),
        Verb("help", "this, or more on one word", "verb"),
        Verb(
            "try",
            "snapshot, run the cell, and roll back if it raises",
            "label",
            named={"label": _LABEL},
            flags={**_FORCE, "raise": "end with an error then"},
            is_cell=True,
        ),
    )
}


def parse(line: str, cell: bool) -> tuple[Verb, dict[str, Any]]:
    """The verb and its arguments; names with a dash come with an underscore."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageMistake(f"{error}: is there a quote too few in `{line}`?") from error
    verb = _verb(words[0] if words else ("try" if cell else "status"), cell)
    found: dict[str, Any] = {}
    loose = []
    for word in words[1:]:
        name, given, value = word.partition("=")
        if word.startswith("--"):
            if name[2:] in verb.flags and not given:
                found[name[2:].replace("-", "_")] = True
            elif name[2:] in verb.named and given:
                found[name[2:]] = value
            else:
                raise UsageMistake(f"`{verb.name}` does not know `{word}`; usage: {verb.usage()}")
        elif given and name in verb.named:
            found[name] = value
        elif given and name.isidentifier() and (near := difflib.get_close_matches(name, verb.named, 1)):
            raise UsageMistake(f"`{verb.name}` does not know `{name}=`; did you mean `{near[0]}=`?")
        else:
            loose.append(word)
    if loose:
        if verb.rest is None or verb.rest in found:
            raise UsageMistake(f"`{verb.name}` does not take `{' '.join(loose)}`; usage: {verb.usage()}")
        found[verb.rest] = " ".join(loose)
    if verb.is_needed and not found.get(verb.rest or ""):
        raise UsageMistake(f"`{verb.name}` needs to know what; usage: {verb.usage()}")
    return verb, found


def _verb(name: str, cell: bool) -> Verb:
    verb = VERBS.get(name)
    if verb is None:
        near = difflib.get_close_matches(name, VERBS, 1)
        raise UsageMistake(f"there is no `{name}`; " + (f"did you mean `{near[0]}`?" if near else "`%infinijup help` lists what there is"))
    if verb.is_cell != cell:
        raise UsageMistake(f"`{name}` belongs at the {'top of a cell' if verb.is_cell else 'beginning of a line'}: {verb.usage()}")
    return verb


def help_text(name: str | None = None) -> str:
    """All of them, or one with all it takes."""
    if name is None:
        width = max(len(name) for name in VERBS) + 1
        lines = [f"  {('%%' if verb.is_cell else '') + name:<{width + 1}} {verb.summary}" for name, verb in VERBS.items()]
        return "\n".join(
            [
                "%infinijup VERB …",
                *lines,
                "",
                "A snapshot is named by its id or the beginning of it, a tag, a label, or `NAME~N`, the Nth before that.",
            ]
        )
    verb = VERBS.get(name) or _verb(name, False)
    more = [f"  {word + '=…':<12} {what}" for word, what in verb.named.items()] + [
        f"  {'--' + word:<12} {what}" for word, what in verb.flags.items()
    ]
    return "\n".join([verb.usage(), f"  {verb.summary}", *more])
