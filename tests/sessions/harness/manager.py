"""The kernel manager of a Jupyter server, as a user's program, told what to do by lines of JSON.

Uses nothing of the harness: throw-away users, who cannot read the sources, run the text of this file with `python -c`. The managers are
those of jupyter_client that a server uses, restarter included; the provisioner is found by its entry point.

A line is `{"id": 1, "do": "start", …}`, its answer `{"id": 1, "ok": …}` or `{"id": 1, "error": "…"}`, in whatever order things end.
"""

import asyncio
import json
import os
import queue
import sys

from jupyter_client.ioloop import AsyncIOLoopKernelManager
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from jupyter_client.provisioning import KernelProvisionerFactory


def parent(message):
    """The request that a message belongs to. Kernels made with xeus have messages that belong to none, and say null."""
    return (message["parent_header"] or {}).get("msg_id")


class Manager:
    """Verbs are methods."""

    def __init__(self):
        self.kernels = AsyncMultiKernelManager(kernel_manager_class=f"{AsyncIOLoopKernelManager.__module__}.AsyncIOLoopKernelManager")
        self.kernels.root_dir = os.getcwd()
        self.clients = {}
        self.restarts = 0

    async def start(self, kernel_id, name="python3", path=None, cwd=None, default=True):
        factory = KernelProvisionerFactory.instance()
        factory.default_provisioner_name = "infinijup" if default else "local-provisioner"
        env = {**os.environ, **({"JPY_SESSION_NAME": path} if path else {})}
        await self.kernels.start_kernel(kernel_id=kernel_id, kernel_name=name, env=env, cwd=cwd or os.getcwd())
        kernel = self.kernels.get_kernel(kernel_id)
        kernel.add_restart_callback(self.restarted, "restart")
        return await self.look(kernel_id)

    def restarted(self):
        self.restarts += 1

    async def look(self, kernel_id):
        """What is known of a kernel."""
        kernel = self.kernels.get_kernel(kernel_id)
        provisioner = kernel.provisioner
        known = {"alive": await kernel.is_alive(), "ports": kernel.ports, "restarts": self.restarts}
        known |= {name: getattr(provisioner, name, None) for name in ("session_id", "why_not", "state")}
        return known

    async def process(self, kernel_id):
        """The process that a local provisioner takes for the kernel: its number, and how it has ended."""
        process = self.kernels.get_kernel(kernel_id).provisioner.process
        return {"pid": process.pid if process else None, "code": process.poll() if process else None}

    async def client(self, kernel_id):
        if kernel_id not in self.clients:
            client = self.kernels.get_kernel(kernel_id).client()
            client.start_channels()
            self.clients[kernel_id] = client
        return self.clients[kernel_id]

    async def ready(self, kernel_id, seconds=60):
        """Asks until there is an answer, and until iopub is heard, as a server does."""
        client = await self.client(kernel_id)
        async with asyncio.timeout(seconds):
            while True:
                asked = client.kernel_info()
                try:
                    while parent(await client.get_shell_msg(timeout=1)) != asked:
                        pass
                    while parent(await client.get_iopub_msg(timeout=1)) != asked:
                        pass
                    return
                except queue.Empty:
                    continue

    async def run(self, kernel_id, code, seconds=60):
        """A cell: its reply, and what it printed. Ends by the idle of the kernel that answers, restored or not."""
        client = await self.client(kernel_id)
        asked = client.execute(code)
        return await self.follow(kernel_id, asked, seconds)

    async def follow(self, kernel_id, asked, seconds=60):
        client = await self.client(kernel_id)
        printed = ""
        async with asyncio.timeout(seconds):
            while True:
                message = await client.get_iopub_msg(timeout=None)
                if parent(message) != asked:
                    continue
                content = message["content"]
                if message["msg_type"] == "stream":
                    printed += content["text"]
                elif message["msg_type"] in ("execute_result", "display_data"):
                    printed += content["data"].get("text/plain", "")
                elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                    break
            while parent(reply := await client.get_shell_msg(timeout=None)) != asked:
                pass
        return {"printed": printed, **{name: reply["content"].get(name) for name in ("status", "ename", "evalue", "execution_count")}}

    async def begin(self, kernel_id, code):
        """A cell whose end is waited for later, by `follow`; it has begun when this answers."""
        client = await self.client(kernel_id)
        asked = client.execute(code)
        while True:
            message = await client.get_iopub_msg(timeout=30)
            if parent(message) == asked and message["msg_type"] == "execute_input":
                return asked

    async def complete(self, kernel_id, code):
        client = await self.client(kernel_id)
        asked = client.complete(code)
        while parent(reply := await client.get_shell_msg(timeout=30)) != asked:
            pass
        return reply["content"]["matches"]

    async def interrupt(self, kernel_id):
        await self.kernels.get_kernel(kernel_id).interrupt_kernel()

    async def restart(self, kernel_id, now=False):
        await self.kernels.get_kernel(kernel_id).restart_kernel(now=now)
        return await self.look(kernel_id)

    async def shutdown(self, kernel_id, now=False):
        self.close(kernel_id)
        await self.kernels.shutdown_kernel(kernel_id, now=now)

    async def leave(self):
        """As a server that ends and lets its kernels live."""
        for kernel_id in self.kernels.list_kernel_ids():
            self.close(kernel_id)
            self.kernels.get_kernel(kernel_id).provisioner.detach()
        await self.kernels.shutdown_all()

    def close(self, kernel_id):
        client = self.clients.pop(kernel_id, None)
        if client:
            client.stop_channels()


async def main():
    manager = Manager()
    loop = asyncio.get_running_loop()
    tasks = set()

    async def do(order):
        number, verb = order.pop("id"), order.pop("do")
        try:
            answer = {"id": number, "ok": await getattr(manager, verb)(**order)}
        except Exception as error:  # noqa: BLE001 - whoever asked must hear of it
            answer = {"id": number, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)

    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = loop.create_task(do(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main())
    # Sockets that are still open must not keep us.
    os._exit(0)
