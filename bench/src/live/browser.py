"""JupyterLab in a browser, fed with lines: each is an object `{"do": NAME, …}` and is answered by one. `SOCKET USER` are the
daemon's socket and whose it is: the server runs as that user. Times are taken in the page itself, by its own clock.

It is written in the words of the browser tests, so what is measured is what they try.
"""

import statistics
import sys
import time

from harness.users import User
from lab import by_itself, day
from lab.fed import answer_lines
from lab.history import History
from lab.notebook import Notebook
from lab.server import Lab
from lab.tab import Tab


class Bench:
    """One notebook in one tab."""

    def __init__(self, context, socket: str, user: User):
        daemon = type("Daemon", (), {"socket": socket})
        self.lab = Lab(daemon, user).start()
        self.path = self.lab.write_notebook("bench.ipynb", "answer = 41")
        self.tab = Tab(context, self.lab, "bench")
        self.tab.page.set_default_timeout(60_000)
        self.notebook = Notebook(self.tab, self.path)

    def open(self):
        """The notebook, with its kernel."""
        self.tab.goto(self.path)
        self.notebook.connected(120)
        return {"kernel_id": self.notebook.kernel()["id"], "session": self.session()}

    def session(self):
        """The daemon's session."""
        return self.lab.get(f"/infinijup/kernels/{self.notebook.kernel()['id']}")["session"]["id"]

    def run(self, code):
        """A cell."""
        return {"output": self.notebook.execute(code, 120)}

    def snapshot(self, label):
        """As the page asks for one."""
        return self.lab.post("/infinijup/snapshot", {"kernel_id": self.notebook.kernel()["id"], "label": label})

    def restore(self, commit):
        """From the click that says yes until the page has an answer from the restored kernel."""
        history = History(self.tab).open()
        history.action(commit, "restore")
        dialog = self.tab.dialog("restore")
        choice = dialog.locator('input[name="infinijup-restore"][value="kernel"]')
        if choice.count():
            choice.check()
        self.tab.forget_notices()
        clock = self.tab.page.evaluate_handle(CLOCK, self.path)
        dialog.locator(".jp-mod-accept").click()
        return self.tab.page.evaluate("clock => clock.done", clock)

    def panel(self):
        """From the click on its tab until the first cards are drawn; then from top to bottom; then nothing for ten seconds."""
        page = self.tab.page
        opened = []
        tab_in_bar = page.locator('.jp-SideBar .lm-TabBar-tab[data-id="infinijup-history"]')
        for _ in range(3):
            self.tab.goto(self.path)
            self.notebook.connected(120)
            clock = page.evaluate_handle(OPENED)
            tab_in_bar.click()
            opened.append(page.evaluate("clock => clock.done", clock))
        History(self.tab).unfold()
        page.evaluate("() => { window.longTasks.length = 0; }")
        seen = page.evaluate(SCROLL)
        longest = page.evaluate("() => Math.max(0, ...window.longTasks.map(task => task.ms))")
        time.sleep(2)
        before = len(self.tab.requests)
        time.sleep(10)
        requests = [line for line in self.tab.requests[before:] if "/infinijup/" in line]
        return {"open_ms": statistics.median(opened), "opens": opened, "longest_task_ms": longest, "seen": seen, "idle_requests": requests}

    def day(self, cells, megabytes, longest_look, snapshots, pause_ms):
        """A day's work in a notebook of its own, with a snapshot after each cell or with none: how long each cell took, and the snapshots."""
        path = self.lab.write_notebook(f"day-{'with' if snapshots else 'without'}.ipynb", *day.cells(cells, megabytes))
        self.tab.goto(path)
        notebook = Notebook(self.tab, path).connected(120)
        # What the user may choose is as it is by itself, but for this.
        policy = {"after_cell": snapshots, **({"pause_ms": pause_ms} if pause_ms else {})}
        self.lab.request("PUT", "/infinijup/policy", {"policy": policy})
        times = day.timed(notebook, seed=1, longest=longest_look)
        taken = [] if not snapshots else by_itself.after_cells(notebook)
        # The kernel goes: the next one is to have the machine for itself.
        self.lab.request("DELETE", f"/api/kernels/{notebook.kernel()['id']}")
        said = [{"number": commit["cell"]["number"], "pause_ms": commit["frozen_us"] / 1000} for commit in taken]
        return {"times_ms": times, "snapshots": said}

    def close(self):
        """The server; its kernel is the daemon's."""
        self.lab.stop()


# Starts with the click on the button of the dialog. Ends when the kernel has answered a question that was sent when the page first heard
# of it again: it says nothing while it is exchanged. Nothing is polled, the page has only two cores to share with everything else.
CLOCK = """
path => {
  const clock = {};
  let panel = null;
  for (const widget of window.jupyterapp.shell.widgets('main')) if (widget.context && widget.context.path === path) panel = widget;
  const kernel = panel.sessionContext.session.kernel;
  const started = new Promise(resolve => document.querySelector('.jp-Dialog .jp-mod-accept')
    .addEventListener('click', () => resolve(performance.now()), { capture: true, once: true }));
  const heard = started.then(() => new Promise(resolve => {
    const listen = (_, { direction }) => {
      if (direction === 'recv') {
        kernel.anyMessage.disconnect(listen);
        resolve();
      }
    };
    kernel.anyMessage.connect(listen);
  }));
  const told = started.then(() => new Promise(resolve => {
    const look = () => {
      const toasts = Array.from(document.querySelectorAll('.Toastify__toast:not([data-seen])'));
      if (toasts.some(node => /is back|are back/.test(node.textContent))) {
        observer.disconnect();
        resolve(performance.now());
      }
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
    look();
  }));
  const answered = heard.then(() => kernel.requestKernelInfo()).then(() => performance.now());
  clock.done = Promise.all([started, answered, told]).then(([start, end, said]) => ({
    gap_ms: end - start, told_ms: said - start, status: kernel.status
  }));
  return clock;
}"""

OPENED = """
() => {
  const clock = {};
  // The tab itself is drawn anew when the pointer comes over it.
  const started = new Promise(resolve => document.addEventListener('pointerdown', () => resolve(performance.now()), { capture: true, once: true }));
  clock.done = started.then(async start => {
    const shown = () => document.querySelectorAll('[data-infinijup-panel] [data-infinijup-commit]').length > 3;
    while (!shown()) await new Promise(resolve => requestAnimationFrame(resolve));
    await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    return performance.now() - start;
  });
  return clock;
}"""

# As with a wheel: a step each frame, from the top to the bottom; which snapshots came by.
SCROLL = """
async () => {
  const box = document.querySelector('[data-infinijup-scroll]');
  const seen = new Set();
  for (box.scrollTop = 0; ; box.scrollTop += 400) {
    await new Promise(resolve => requestAnimationFrame(resolve));
    for (const card of box.querySelectorAll('[data-infinijup-commit]')) seen.add(card.dataset.infinijupCommit);
    if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1) break;
  }
  return seen.size;
}"""


def main() -> None:
    socket, name = sys.argv[1:]
    answer_lines(lambda browser: Bench(browser.new_context(viewport={"width": 1400, "height": 900}), socket, User(name)))


main()
