"""A tab of a real browser with JupyterLab in it.

Everything is done as a person does it, with keys and clicks. What is *read* is read from the application itself where the page
does not show it reliably: a long notebook keeps only the visible cells in the document. JupyterLab hands itself out as
`window.jupyterapp` when it is started with `--expose-app-in-browser`.
"""

import os
import re
import time
from pathlib import Path

from playwright.sync_api import TimeoutError as NotInTime

from harness import proc

PAGE = Path(__file__).with_name("page.js").read_text()
# A kernel that was exchanged must never look like one that died.
DEATH = re.compile(r"appears to have died|kernel restarting|autorestart|kernel died|kernel has died", re.IGNORECASE)

# Errors on the console that are ours: in our files, or of the graph of the history, which the browser does not say of.
OURS = re.compile(r"infinijup|<(rect|path|circle|svg)> attribute", re.IGNORECASE)

# What the browser itself says when a server is not there.
OF_THE_NETWORK = re.compile(r"Failed to load resource|WebSocket connection to .* failed")


def artefacts() -> Path:
    """Where pictures go."""
    default = Path(__file__).parents[3] / "target/e2e"
    return Path(os.environ.get("INFINIJUP_ARTEFACTS", default)).absolute()


class Tab:
    """One tab, in a workspace of JupyterLab of its own. `name` is of the test; pictures are called after it."""

    def __init__(self, context, lab, name: str):
        self.lab, self.name = lab, name
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.shots = 0
        self.page = context.new_page()
        self.page.add_init_script(PAGE)
        self.page.on("console", self.heard)
        self.page.on("pageerror", lambda error: self.errors.append(f"{error.message}\n{error.stack}"))
        self.page.on("request", lambda request: self.requests.append(f"{request.method} {request.url}"))
        self.page.on("websocket", self.connected)
        self.news: list[str] = []
        self.workspace = re.sub(r"[^a-z0-9]+", "-", name.lower())

    def connected(self, socket) -> None:
        """Keeps what the server extension tells the page, for failures."""
        if socket.url.partition("?")[0].endswith("/infinijup/events"):
            socket.on("framereceived", lambda frame: self.news.append(str(frame)))

    def heard(self, message) -> None:
        """Something was written to the console."""
        text = message.text
        if text.startswith("dialog seen: "):
            self.dialogs.append(text.removeprefix("dialog seen: "))
        elif message.type == "error" and not OF_THE_NETWORK.search(text):
            self.errors.append(text)

    def goto(self, path: str | None = None, reset: bool = True) -> "Tab":
        """Opens JupyterLab, with a document if one is named, and waits until it is there."""
        tree = f"/tree/{path}" if path else ""
        self.page.goto(f"{self.lab.url}/lab/workspaces/{self.workspace}{tree}?{'reset&' if reset else ''}token={self.lab.token}")
        self.ready()
        return self

    def reload(self) -> "Tab":
        """As a person reloads the page."""
        self.page.reload()
        self.ready()
        return self

    def ready(self, seconds: float = 60) -> None:
        """Waits until JupyterLab has started."""
        started = "() => window.jupyterapp && !document.querySelector('#jupyterlab-splash')"
        self.page.wait_for_function(started, timeout=seconds * 1000)
        self.page.evaluate("() => window.jupyterapp.restored.then(() => null)")

    def press(self, *keys: str) -> None:
        """Keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def command(self, label: str) -> None:
        """Runs a command from the palette, as a person finds it there."""
        self.press("Control+Shift+C")
        search = self.page.locator(".lm-CommandPalette-input")
        search.wait_for()
        search.fill(label)
        item = self.page.locator(".lm-CommandPalette-item:visible", has_text=label).first
        item.wait_for()
        item.click()

    def dialog(self, kind: str | None = None, seconds: float = 15):
        """The dialog that is open, once it is."""
        found = self.page.locator(".jp-Dialog", has=self.page.locator(f'[data-infinijup-dialog="{kind}"]') if kind else None)
        found.first.wait_for(timeout=seconds * 1000)
        return found.first

    def notebooks(self) -> list[str]:
        """Paths of the notebooks that are open."""
        return [path for path in self.page.evaluate("() => window.tests.paths()") if path.endswith(".ipynb")]

    def toolbar(self, item: str):
        """A button of the toolbar of the notebook that is the current one, by its name in the schema. What has no room is behind `…`."""
        panel = f'[id="{self.page.evaluate("() => window.jupyterapp.shell.currentWidget.id")}"]'
        found = self.page.locator(f'{panel} [data-jp-item-name="{item}"]')
        if not found.count() and self.page.locator(f"{panel} .jp-Toolbar-responsive-opener").count():
            self.page.locator(f"{panel} .jp-Toolbar-responsive-opener").locator("jp-button, button").first.click()
            found = self.page.locator(f'.jp-Toolbar-responsive-popup:visible [data-jp-item-name="{item}"]')
        return found.locator("jp-button, button").first

    def press_toolbar(self, item: str) -> None:
        """Presses one of those. A toolbar that is being laid out puts buttons behind `…` and out again while one looks."""
        deadline = time.monotonic() + 30
        while True:
            try:
                return self.toolbar(item).click(timeout=2000)
            except NotInTime:
                if time.monotonic() > deadline:
                    raise

    def notices(self) -> list[str]:
        """What the notifications say that are on the screen, but for those that were seen before."""
        return self.page.locator(".Toastify__toast:not([data-seen])").all_inner_texts()

    def forget_notices(self) -> None:
        """Those that are on the screen now are old."""
        self.page.locator(".Toastify__toast").evaluate_all("found => found.forEach(node => { node.dataset.seen = 'yes'; })")

    def wait_notice(self, words: str, seconds: float = 30) -> str:
        """Waits for a notification that says so."""

        def found():
            return next((text for text in self.notices() if re.search(words, text)), None)

        return proc.until(f"a notification says /{words}/", found, seconds, pause=0.1)

    def press_notice(self, words: str, button: str, seconds: float = 30) -> None:
        """Presses a button of a notification that says so."""
        self.wait_notice(words, seconds)
        notice = self.page.locator(".Toastify__toast:not([data-seen])", has_text=re.compile(words))
        notice.get_by_role("button", name=button, exact=True).first.click()

    def shot(self, name: str) -> Path:
        """A picture, kept for people to look at."""
        self.shots += 1
        path = artefacts() / self.workspace / f"{self.shots:02}-{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        # As if what slides in had arrived.
        self.page.screenshot(path=str(path), animations="disabled")
        return path

    def check(self) -> None:
        """Nothing was seen that must never be seen."""
        died = [text for text in self.dialogs if DEATH.search(text)]
        assert not died, f"a dialog said that the kernel died: {died}"
        ours = [text for text in self.errors if OURS.search(text)]
        assert not ours, f"errors on the console: {ours}"
