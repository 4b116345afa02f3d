"""Every test begins at work, without hooks and without GPU libraries."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from infinijup import rest as engine  # noqa: E402

LIBRARIES = ("torch", "cupy", "numba.cuda.cudadrv.driver", "cuda.core", "cuda.core.experimental", "cuda.bindings.driver")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(engine, "_state", engine._State())
    for name in LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
