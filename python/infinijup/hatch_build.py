"""Puts the JupyterLab extension into the wheel, if it was built."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "infinijup/labextension"


class LabextensionHook(BuildHookInterface):
    """As `shared-data` in pyproject.toml would, which must not name what may be missing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard" and Path(self.root, BUILT, "package.json").is_file():
            build_data["shared_data"][BUILT] = "share/jupyter/labextensions/infinijup"
