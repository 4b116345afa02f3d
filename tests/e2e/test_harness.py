"""The words that the other tests are written in, tried on a plain notebook."""

from harness import proc


def test_cells_run_and_answer(lab, open_notebook):
    notebook = open_notebook(lab, "plain.ipynb", "x = 20", "x + 1")
    assert notebook.run(0) == ""
    assert notebook.run(1) == "21"
    assert notebook.execute("for n in range(3):\n    print(n * x)") == "0\n20\n40"
    assert "NameError" in notebook.execute("nothing")
    started = notebook.begin("import time\nwhile True:\n    time.sleep(0.05)")
    proc.until("the cell runs", notebook.running, 10)
    notebook.tab.press("Escape", "i", "i")
    assert "KeyboardInterrupt" in notebook.finish(started)
    notebook.quiet()
    notebook.save()
    assert lab.read_notebook("plain.ipynb")["cells"][2]["outputs"][0]["text"] == ["0\n", "20\n", "40\n"]
    assert notebook.tab.shot("plain").exists()
