"""Version and platform of the wheel. Its files are in prefix/, where scripts/build-wheel.sh puts what scripts/install-criu.sh made."""

import platform
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = Path(__file__).with_name("prefix") / "share/doc/infinijup-criu/packages.txt"


def version() -> str:
    """CRIU's own."""
    if not PACKAGES.is_file():
        raise SystemExit("infinijup-criu: there is no CRIU in prefix/; build the wheel with scripts/build-wheel.sh --criu PREFIX")
    found = re.search(r"^criu ([0-9.]+)", PACKAGES.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"infinijup-criu: {PACKAGES} does not name a version of criu")
    return found[1]


class PlatformHook(BuildHookInterface):
    """It has its own libc and loader, so it runs with any libc, on kernels as old as that libc takes (3.2)."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        machine = platform.machine()
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"
