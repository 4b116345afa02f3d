"""`jupyter infinijup kernelspec install`: kernelspecs that always start under the daemon.

With the server extension every kernel does, so nobody needs this for JupyterLab on their own machine. It is for servers where only some
kernels shall have a history, for kernels with limits of their own, and for programs such as papermill that have no server extension. A
kernel of such a spec is never started without the daemon.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from infinijup import launch
from infinijup.provisioner import NAME

SUFFIX = "-infinijup"


def wrap(spec: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """A kernelspec's content, with us as its provisioner."""
    metadata = {**spec.get("metadata", {}), "kernel_provisioner": {"provisioner_name": NAME, "config": config}}
    return {**spec, "display_name": f"{spec['display_name']} (infinijup)", "metadata": metadata}


def install(manager: KernelSpecManager, kernel: str, config: dict[str, Any], name: str, **where: Any) -> str:
    """Installs a copy of `kernel` under `name`. Its directory."""
    original = manager.get_kernel_spec(kernel)
    if original.metadata.get("kernel_provisioner", {}).get("provisioner_name") not in (None, "local-provisioner"):
        raise ValueError(f"kernel {kernel} has a provisioner of its own already")
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory, "spec")
        # Its logos, and whatever `{resource_dir}` in its command stands for.
        if Path(original.resource_dir, "kernel.json").is_file():
            shutil.copytree(original.resource_dir, copy)
        else:
            copy.mkdir()
        spec = wrap(original.to_dict(), config)
        # A plain `python` is that of whoever starts it; here it is the one that has the kernel.
        major, minor = sys.version_info[:2]
        if spec["argv"][0] in ("python", f"python{major}", f"python{major}.{minor}"):
            spec["argv"] = [sys.executable, *spec["argv"][1:]]
        Path(copy, "kernel.json").write_text(json.dumps(spec, indent=1) + "\n")
        return manager.install_kernel_spec(str(copy), kernel_name=name, **where)


def configuration(options: argparse.Namespace) -> dict[str, Any]:
    """What the provisioner is to be told, checked here rather than at the first start."""
    config: dict[str, Any] = {}
    if options.network:
        config["network"] = options.network
    if options.files:
        config["files"] = launch.files_wish(options.files)["type"]
    if options.gpus:
        launch.gpus_wish(options.gpus)
        config["gpus"] = options.gpus
    if options.memory:
        config["memory_limit"] = launch.size(options.memory)
    return config


def parser() -> argparse.ArgumentParser:
    """Its arguments."""
    top = argparse.ArgumentParser(prog="jupyter infinijup", description="kernels with a history")
    specs = top.add_subparsers(dest="subject", required=True).add_parser("kernelspec", help="kernelspecs that start under the daemon")
    verbs = specs.add_subparsers(dest="verb", required=True)
    add = verbs.add_parser("install", help="install copies of kernelspecs that always start under the daemon")
    add.add_argument("kernels", nargs="*", default=["python3"], metavar="KERNEL", help="as `jupyter kernelspec list` shows them (python3)")
    add.add_argument("--name", help=f"name of the copy (KERNEL{SUFFIX}); for one kernel only")
    place = add.add_mutually_exclusive_group()
    place.add_argument("--sys-prefix", action="store_true", help="into this environment, instead of for this user")
    place.add_argument("--prefix", help="into that installation")
    add.add_argument("--network", choices=["private", "host"])
    add.add_argument("--files", choices=["open", "tree", "none"], help="which files belong to snapshots")
    add.add_argument("--gpus", help="all, none, or a list with commas")
    add.add_argument("--memory", help="the most memory, for instance 8G")
    remove = verbs.add_parser("remove", help="remove such copies")
    remove.add_argument("kernels", nargs="+", metavar="KERNEL")
    return top


def main(words: list[str] | None = None) -> int:
    """The command."""
    options = parser().parse_args(words)
    manager = KernelSpecManager()
    try:
        if options.verb == "remove":
            for name in options.kernels:
                provisioner = manager.get_kernel_spec(name).metadata.get("kernel_provisioner", {})
                if provisioner.get("provisioner_name") != NAME:
                    raise ValueError(f"kernel {name} was not made by `jupyter infinijup kernelspec install`")
                print(f"removed {manager.remove_kernel_spec(name)}")
            return 0
        if options.name and len(options.kernels) > 1:
            raise ValueError("--name is for one kernel at a time")
        prefix = sys.prefix if options.sys_prefix else options.prefix
        for kernel in options.kernels:
            name = options.name or f"{kernel}{SUFFIX}"
            where = {"prefix": prefix} if prefix else {"user": True}
            print(f"{name}: {install(manager, kernel, configuration(options), name, **where)}")
    except NoSuchKernel as error:
        return say(f"there is no kernel {error.name}; `jupyter kernelspec list` shows those that there are")
    except (OSError, ValueError) as error:
        return say(str(error))
    return 0


def say(problem: str) -> int:
    print(f"jupyter-infinijup: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
