"""Servers that cells start: each kernel's are in its panel, and a click opens them, through the server's proxy or straight."""

import pytest

from harness import proc
from lab.history import History
from lab.notebook import Notebook

SERVER = """
import http.server, threading
who = "original"
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"<title>{who}</title><p>page of {who}".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8050), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
"""
NO_PROXY = "--ServerApp.jpserver_extensions={'jupyter_server_proxy': False, 'infinijup': True}"


def follow(history, text):
    """Opens the link to the kernel's server by keyboard; the page that it leads to, which must say this."""
    link = history.panel.get_by_role("list", name="Servers of this kernel").get_by_role("link", name="Server on port 8050")
    link.wait_for()
    link.focus()
    with history.tab.page.context.expect_page() as opened:
        link.press("Enter")
    page = opened.value
    page.get_by_text(f"page of {text}").wait_for()
    return page


@pytest.mark.parametrize("width", [1280, 1024])
def test_original_and_two_branches_are_open_at_a_time(lab, open_notebook, width):
    notebook = open_notebook(lab, f"served-{width}.ipynb", SERVER, "who = 'one'", viewport={"width": width, "height": 800})
    tab, history = notebook.tab, History(notebook.tab).open()
    assert history.panel.locator("[data-infinijup-server]").count() == 0
    notebook.run(0)
    pages = {"original": follow(history, "original")}
    assert f":{lab.port}/proxy/" in pages["original"].url, "through jupyter-server-proxy, where the page is"
    tab.shot("server")
    if width == 1024:
        tab.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
        tab.page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
        tab.page.locator("#jupyterlab-splash").wait_for(state="detached")
        tab.shot("server-dark")
        return
    before = history.commits()
    history.panel.locator(".jp-InfinijupHistory-toolbar [data-infinijup-action=snapshot]").click()
    commit = history.wait_newer(before, 60)
    for number, name in enumerate(("one", "two"), 1):
        notebook.activate()
        history.action(commit, "branch")
        path = proc.until("a copy opens", lambda count=number + 1: len(tab.notebooks()) == count and tab.notebooks()[-1], 60)
        branch = Notebook(tab, path).connected()
        branch.execute(f"who = {name!r}")
        pages[name] = follow(history, name)
    tab.shot("branch")
    assert len({page.url for page in pages.values()}) == 3
    for name, page in pages.items():
        page.reload()
        assert page.title() == name
    # A server that has ended is not offered any more.
    branch.execute("server.shutdown(); server.server_close()")
    history.panel.locator("[data-infinijup-server]").wait_for(state="detached")


def test_without_the_proxy_the_link_is_straight(make_lab, daemon, user, open_notebook):
    lab = make_lab(daemon, user, options=[NO_PROXY])
    notebook = open_notebook(lab, "straight.ipynb", SERVER)
    history = History(notebook.tab).open()
    notebook.run(0)
    page = follow(history, "original")
    assert page.url.startswith("http://127.0.0.1:") and f":{lab.port}/" not in page.url
