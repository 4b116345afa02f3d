"""Every test begins at work, without hooks and without GPU libraries. None may start the daemon of whoever runs the tests."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from infinijup import quiescing as engine  # noqa: E402

# A socket that is named is connected to, never made. Here and not in a fixture: those of modules come before it.
os.environ["INFINIJUP_SOCKET"] = "/nonexistent/infinijupd.sock"

LIBRARIES = ("torch", "cupy", "numba.cuda.cudadrv.driver", "cuda.core", "cuda.core.experimental", "cuda.bindings.driver")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(engine, "_state", engine._State())
    for name in LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
