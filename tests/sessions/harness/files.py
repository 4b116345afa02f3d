"""Files of a daemon that works on: what is listed may be gone when it is looked at."""

import os
from pathlib import Path


def below(directory):
    """Each path below a directory with its facts, links not followed. What goes meanwhile is left out."""
    for base, names, files in os.walk(directory):
        for name in names + files:
            path = Path(base, name)
            try:
                yield path, path.lstat()
            except FileNotFoundError:
                continue
