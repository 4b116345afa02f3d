"""A kernel that wakes up and finds the GPU full: the one that has been idle longest makes way for it.

Only where the user has idle kernels suspended anyway: then this merely does it sooner, for a reason.
"""

from typing import TYPE_CHECKING, Any

from infinijup.daemon import DaemonError

if TYPE_CHECKING:
    from infinijup.serverextension.hub import Hub

# No place on the GPUs.
GPU_IS_FULL = "IJ-L080"


async def suspend_idlest(hub: "Hub", kernel_id: str) -> bool:
    """Suspends one other kernel. False if there is none that could be."""
    if hub.policy.server.suspend_after_idle_s is None:
        return False
    try:
        views = (await hub.daemon.get("/v1/sessions"))["sessions"]
    except DaemonError as error:
        # The cell that waits is told why it cannot run, instead of waiting for ever.
        hub.log.info("infinijup: nobody can be asked to make way: %s", error)
        return False
    idle = [(since, kernel) for view in views if (kernel := hub.kernel_of(view["id"])) and (since := _idle_since(hub, kernel, view))]
    for _, kernel in sorted(idle):
        if kernel == kernel_id:
            continue
        try:
            await hub.swaps.operate(kernel, "suspend", {"reason": "idle"})
        except DaemonError as error:
            hub.log.info("infinijup: kernel %s makes no way: %s", kernel, error)
        else:
            return True
    return False


def _idle_since(hub: "Hub", kernel: str, view: dict[str, Any]) -> str | None:
    """Since when it does nothing with the GPU memory that it has; None if it works, or has none."""
    desk, activity = hub.desk(kernel), view.get("activity") or {}
    works = desk.cells_open() or desk.swapping or activity.get("state") == "busy"
    if works or view["state"] != "running" or not view.get("vram_bytes"):
        return None
    return activity.get("since") or view["created"]
