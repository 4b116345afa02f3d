"""The History panel of a tab, and the dialogs that its actions open."""

from harness import proc


class History:
    """The panel on the right."""

    def __init__(self, tab):
        self.tab, self.page = tab, tab.page
        self.panel = tab.page.locator("[data-infinijup-panel]")

    def open(self, seconds: float = 15) -> "History":
        """Opens it by its tab in the side bar."""
        if not self.panel.is_visible():
            self.page.locator('.jp-SideBar .lm-TabBar-tab[data-id="infinijup-history"]').click()
        self.panel.wait_for(state="visible", timeout=seconds * 1000)
        return self

    def cards(self) -> list[dict]:
        """The cards that are in sight, from the top."""
        return self.panel.locator("[data-infinijup-commit]").evaluate_all(
            "found => found.map(node => ({ ...node.dataset, commit: node.dataset.infinijupCommit, text: node.innerText }))"
        )

    def card(self, commit: str):
        """One card."""
        return self.panel.locator(f'[data-infinijup-commit="{commit}"]').first

    def scroll_to(self, commit: str):
        """One card, wherever it is: a long history keeps only the visible ones in the document."""
        box = self.panel.locator("[data-infinijup-scroll]")
        box.evaluate("node => { node.scrollTop = 0; }")

        def found():
            if self.card(commit).count():
                return True
            box.evaluate("node => { node.scrollTop += 200; }")
            return False

        proc.until(f"the history has the card {commit[:12]}", found, 20, pause=0.1)
        return self.card(commit)

    def wait_card(self, words: str, seconds: float = 30) -> str:
        """Waits for a card that says so; its commit."""
        return self.wait(f"a card with `{words}`", lambda card: words in card["text"], seconds)

    def wait_newer(self, than: set[str], seconds: float = 30) -> str:
        """Waits for a card that was not there; its commit."""
        return self.wait("a new card", lambda card: card["commit"] not in than, seconds)

    def wait(self, what: str, wanted, seconds: float) -> str:
        """Waits for a card; its commit."""

        def found():
            return next((card["commit"] for card in self.cards() if wanted(card)), None)

        return proc.until(f"the history shows {what}", found, seconds, pause=0.1)

    def commits(self) -> set[str]:
        """Of the cards in sight."""
        return {card["commit"] for card in self.cards()}

    def unfold(self) -> None:
        """Opens every fold of automatic snapshots."""
        while (folded := self.panel.locator('[data-infinijup-fold][aria-expanded="false"]')).count():
            folded.first.click()

    def open_card(self, commit: str):
        """A card with its details below it."""
        card = self.card(commit)
        card.scroll_into_view_if_needed()
        if card.get_attribute("aria-expanded") != "true":
            card.locator(".jp-InfinijupHistory-first").click()
        card.locator(".jp-InfinijupHistory-details").wait_for(timeout=5000)
        return card

    def menu(self, commit: str):
        """The menu of an open card, opened by its button."""
        self.open_card(commit).locator('[data-infinijup-action="more"]').click()
        menu = self.page.locator(".jp-InfinijupHistory-menu")
        menu.wait_for(timeout=5000)
        return menu

    def action(self, commit: str, name: str) -> None:
        """An action of a card: one of its buttons, or of its menu."""
        button = self.open_card(commit).locator(f'[data-infinijup-action="{name}"]')
        if button.count():
            button.click()
        else:
            self.menu(commit).locator(f'[data-command="infinijup:{name}"]').click()

    def restore(self, commit: str, what: str = "both", seconds: float = 60) -> None:
        """Restore, with the answer to its question; waits until it is done."""
        self.action(commit, "restore")
        self.answer_restore(what, seconds)

    def answer_restore(self, what: str | None = None, seconds: float = 60) -> None:
        """Says what to restore, or leaves that as it stands, and waits until the notification says that it was."""
        dialog = self.tab.dialog("restore")
        if what:
            dialog.locator(f'input[name="infinijup-restore"][value="{what}"]').check()
        self.tab.forget_notices()
        dialog.locator(".jp-mod-accept").click()
        dialog.wait_for(state="detached", timeout=15000)
        self.tab.wait_notice(r"(?i)restored|back", seconds)

    def branch(self, commit: str) -> None:
        """Branch; its question, if there is one, is answered as it stands."""
        self.action(commit, "branch")

    def tag(self, commit: str, name: str) -> None:
        """Tag."""
        self.action(commit, "tag")
        dialog = self.tab.dialog("tag")
        dialog.locator("input").first.fill(name)
        dialog.locator(".jp-mod-accept").click()
        dialog.wait_for(state="detached", timeout=15000)

    def delete(self, commit: str) -> None:
        """Delete, and yes."""
        self.action(commit, "delete")
        dialog = self.tab.dialog("delete")
        dialog.locator(".jp-mod-accept, .jp-mod-warn").last.click()
        dialog.wait_for(state="detached", timeout=15000)
