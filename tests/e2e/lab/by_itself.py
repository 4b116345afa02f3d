"""A history that nobody thinks of, as somebody uses it who runs cells and takes them back."""

from harness import proc


def after_cells(notebook):
    """The snapshots that were taken by themselves after cells, oldest first."""
    commits = notebook.lab.history(notebook.path)["commits"]
    return [commit for commit in reversed(commits) if commit["reason"] == "after-cell"]


def numbers(notebook):
    """After which cells there are some."""
    return sorted(commit["cell"]["number"] for commit in after_cells(notebook))


def run(notebook, index, number):
    """Runs a cell as a person does who then looks at what came of it: meanwhile its snapshot is taken."""
    known = numbers(notebook).count(number)
    output = notebook.run(index, 120)
    proc.until(f"there is a snapshot after [{number}]", lambda: numbers(notebook).count(number) > known, 60)
    return output


def undo(notebook, number):
    """The button in the toolbar; waits until it is done."""
    notebook.tab.forget_notices()
    notebook.tab.press_toolbar("infinijup-undo-cell")
    notebook.tab.wait_notice(rf"are back to before \[{number}\]", 60)
    notebook.quiet()


def look(notebook):
    """Every cell as it is on the screen."""
    return [(cell["source"], cell["count"], cell["outputs"]) for cell in notebook.cells()]
