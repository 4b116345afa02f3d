"""A browser that is fed with lines: each is an object `{"do": NAME, …}`, and is answered by one."""

import json
import sys

from playwright.sync_api import sync_playwright


def answer_lines(make) -> None:
    """Does what standard input says with what `make(browser)` gives, until its end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        fed = make(browser)
        try:
            for line in sys.stdin:
                ask = json.loads(line)
                answer = getattr(fed, ask.pop("do"))(**ask)
                print(json.dumps(answer), flush=True)
        finally:
            fed.close()
            browser.close()
