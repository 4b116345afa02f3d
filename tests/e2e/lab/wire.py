"""A notebook without a browser: Jupyter's REST and a kernel's websocket, as a page uses them."""

import asyncio
import json
import sys
from pathlib import Path

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect

sys.path.insert(0, str(Path(__file__).parents[3] / "python/infinijup/tests/serverextension"))

from jupyter_page import Page


class Wire:
    """One server, asked without ever blocking: several things happen at once in these tests."""

    def __init__(self, lab):
        self.lab = lab
        self.headers = {"Authorization": f"token {lab.token}"}
        self.pages: list[Page] = []

    async def ask(self, method: str, path: str, body=None):
        """Status and decoded answer."""
        request = HTTPRequest(
            f"{self.lab.url}/{path}", method, self.headers, None if body is None else json.dumps(body), request_timeout=110,
            allow_nonstandard_methods=True,
        )  # fmt: skip
        answer = await AsyncHTTPClient().fetch(request, raise_error=False)
        return answer.code, json.loads(answer.body) if answer.body else None

    async def do(self, path: str, **body):
        """POST below `infinijup/` that must work."""
        code, answer = await self.ask("POST", f"infinijup/{path}", body)
        assert code == 200, f"{path}: {code} {answer}"
        return answer

    async def notebook(self, path: str) -> dict:
        """Opens a notebook: its Jupyter session."""
        name = Path(path).name
        model = {"path": path, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        code, answer = await self.ask("POST", "api/sessions", model)
        assert code == 201, answer
        return answer

    async def open(self, path: str, *cells: str) -> tuple[str, Page]:
        """Writes a notebook and opens it in a page: its kernel, and the page."""
        self.lab.write_notebook(path, *cells)
        kernel = (await self.notebook(path))["kernel"]["id"]
        return kernel, await self.page(kernel)

    async def page(self, kernel: str, **more) -> Page:
        """Opens a page on a kernel."""
        page = await Page.open(f"ws{self.lab.url[4:]}/api/kernels/{kernel}/channels", self.headers, **more)
        self.pages.append(page)
        return page

    async def events(self):
        """The stream of events, and the ones that have come."""
        stream = await websocket_connect(HTTPRequest(f"ws{self.lab.url[4:]}/infinijup/events", headers=self.headers))
        seen: list[dict] = []

        async def read():
            while (line := await stream.read_message()) is not None:
                seen.append(json.loads(line))

        task = asyncio.ensure_future(read())
        self.pages.append(Closing(stream, task))
        return seen

    def close(self) -> None:
        """All pages."""
        for page in self.pages:
            page.close()


class Closing:
    """A stream that ends with the pages."""

    def __init__(self, stream, task):
        self.stream, self.task = stream, task

    def close(self) -> None:
        self.task.cancel()
        self.stream.close()


async def until(what, condition, seconds=60.0):
    """Waits for something to become true."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (value := condition()):
        assert asyncio.get_running_loop().time() < deadline, f"not in {seconds} s: {what}"
        await asyncio.sleep(0.02)
    return value
