"""What sessions and tags may be called.

The rule is the daemon's (`crates/base/src/names.rs`), which refuses what does not fit. It stands here too so that a name can be made that
the daemon takes; `tests/fixtures/names/table.json` holds both together.
"""

import re
import unicodedata

LONGEST_SESSION = 64
LONGEST_TAG = 200

_RESERVED = frozenset("~^:?*[\\")
# They turn the direction of text around, or end a line: a name with one of them looks like another.
_DIRECTION = re.compile("[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def is_session(name: str) -> bool:
    """Whether a session can be called so: one word that could also name a thread."""
    return len(name.encode(errors="replace")) <= LONGEST_SESSION and name[:1].isalnum() and all(map(_fits_session, name)) and is_tag(name)


def is_tag(name: str) -> bool:
    """Whether a tag or a thread can be called so."""
    if not 1 <= len(name.encode(errors="replace")) <= LONGEST_TAG or name.strip() != name or name.startswith("-") or name.endswith("."):
        return False
    if ".." in name or _RESERVED & set(name) or _DIRECTION.search(name) or any(unicodedata.category(one) == "Cc" for one in name):
        return False
    return all(part and not part.startswith(".") and not part.endswith(".lock") for part in name.split("/"))


def session_like(wish: str, longest: int) -> str:
    """The name of a session that is most like `wish`, in at most so many bytes; empty if nothing of it can be used."""
    words = "".join(one if _fits_session(one) else " " for one in unicodedata.normalize("NFC", wish)).split()
    name = re.sub(r"\.{2,}", ".", "-".join(words)).strip("-._")
    # Cut between characters, not within one.
    name = name.encode()[:longest].decode(errors="ignore").rstrip("-._").removesuffix(".lock")
    return name if is_session(name) else ""


def new_fork(unique: str) -> str:
    """What the branches of one `infinijup.fork` are called; the daemon puts their numbers behind it."""
    return f"fork-{unique[:8]}"


def fork_number(session: str, fork: str) -> int | None:
    """Which branch of a fork a session is. A single one has no number behind its name."""
    found = re.fullmatch(re.escape(fork) + r"(?:-(\d+))?", session)
    return int(found[1] or 1) if found else None


def is_of_a_fork(session: str) -> bool:
    """Whether a session is a branch that `infinijup.fork` has made."""
    return re.fullmatch(r"fork-[0-9a-f]{8}(-\d+)?", session) is not None


def _fits_session(one: str) -> bool:
    # What is a letter or a number for Python is one for the daemon, too.
    return one.isalnum() or one in "._-"
