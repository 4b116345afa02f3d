"""Puts into wheel and source archive what is not Python.

The wheel gets the programs, and the JupyterLab extension if it was built. The programs come from the directory that INFINIJUP_PROGRAMS
names; scripts/build-wheel.sh puts them there. Without it, as when pip installs from the source archive, cargo builds them. An
editable install has none: whoever works on the sources has programs of their own.

The source archive gets what cargo needs, in rust/: every member of the workspace, without its tests.
"""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LABEXTENSION = "infinijup/labextension"

# The oldest that a wheel can name without being refused by old versions of pip.
OLDEST_GLIBC = (2, 17)

NEEDS_CARGO = (
    "infinijup has no wheel for this platform, and its programs are built from source by cargo, which is not here. "
    "Install Rust 1.89 or newer (https://rustup.rs) and a C compiler, and try again."
)


class ProgramsHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        if self.target_name == "sdist":
            build_data["force_include"].update(self.sources())
            return
        # Both as `shared-data` and `shared-scripts` in pyproject.toml would, which must not name what may be missing.
        if Path(self.root, LABEXTENSION, "package.json").is_file():
            build_data["shared_data"][LABEXTENSION] = "share/jupyter/labextensions/infinijup"
        programs = self.programs()
        for program in programs:
            build_data["shared_scripts"][str(program)] = program.name
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(programs)}"

    def sources(self) -> dict[str, str]:
        workspace = Path(self.root, "../..").resolve()
        manifest = (workspace / "Cargo.toml").read_text()
        members = re.search(r"^members = \[(.*?)\]", manifest, re.DOTALL | re.MULTILINE)
        assert members is not None, "Cargo.toml has no list of members"
        # Units of systemd are in the programs that install them.
        files = ["Cargo.toml", "Cargo.lock", "deploy/systemd"]
        for member in re.findall(r'"([^"]+)"', members[1]):
            files += [f"{member}/Cargo.toml", f"{member}/src"]
            if (workspace / member / "build.rs").exists():
                files.append(f"{member}/build.rs")
        return {str(workspace / file): f"rust/{file}" for file in files}

    def programs(self) -> list[Path]:
        listed = [line.split() for line in Path(self.root, "programs.txt").read_text().splitlines() if not line.startswith("#")]
        given = os.environ.get("INFINIJUP_PROGRAMS")
        directory = Path(given).resolve() if given else self.build([package for _, package in listed])
        programs = [directory / name for name, _ in listed]
        for program in programs:
            if not program.is_file():
                self.app.abort(f"infinijup: there is no program {program}; build it, or leave INFINIJUP_PROGRAMS unset")
        return programs

    def build(self, packages: list[str]) -> Path:
        """In the sources of the archive, or of the repository."""
        sources = Path(self.root, "rust")
        if not sources.is_dir():
            sources = Path(self.root, "../..").resolve()
        cargo = shutil.which("cargo")
        if cargo is None:
            self.app.abort(NEEDS_CARGO)
        target = Path(os.environ.get("CARGO_TARGET_DIR", sources / "target")).resolve()
        command = [cargo, "build", "--release", "--locked", "--target-dir", str(target)]
        for package in packages:
            command += ["--package", package]
        settings = {"CARGO_PROFILE_RELEASE_STRIP": "symbols", "CARGO_PROFILE_RELEASE_DEBUG": "0"}
        if subprocess.run(command, cwd=sources, env=os.environ | settings).returncode != 0:
            self.app.abort("infinijup: cargo could not build the programs; what it says is above")
        return target / "release"


def platform_tag(programs: list[Path]) -> str:
    """The oldest glibc that has every symbol of the programs decides: it names a version for each, as `GLIBC_2.28`."""
    newest = OLDEST_GLIBC
    for program in programs:
        for major, minor in re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[\0.])", program.read_bytes()):
            newest = max(newest, (int(major), int(minor)))
    return f"manylinux_{newest[0]}_{newest[1]}_{platform.machine()}"
