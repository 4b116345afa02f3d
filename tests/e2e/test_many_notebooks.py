"""Many notebooks share a GPU that fits two: those that are idle sleep, and running a cell wakes them."""

import json
import os

import pytest

from harness import proc
from lab.gpu_cells import setup
from lab.notebook import Notebook

NOTEBOOKS = int(os.environ.get("INFINIJUP_E2E_NOTEBOOKS", "5"))
# What each notebook has on the GPU, and what the GPU has. The proportion is that of 10 GB on one of 24 GB.
MIB = int(os.environ.get("INFINIJUP_E2E_NOTEBOOK_MIB", "200"))
GPU_MIB = MIB * 24 // 10


@pytest.fixture
def gpu(make_gpu):
    return make_gpu(gpus=1, memory=f"{GPU_MIB}MiB")


@pytest.mark.timeout(900)
def test_all_are_used_in_turn(gpu, make_daemon, user, make_lab, make_tab):
    lab = make_lab(make_daemon(gpu.env()), user, gpu.env())
    setting = user.home / ".jupyter/lab/user-settings/infinijup/plugin.jupyterlab-settings"
    user.mkdir(setting.parent)
    user.write(setting, json.dumps({"suspendAfterIdleMinutes": 0.05, "snapshotAfterCell": False}))
    tab = make_tab(lab).goto()
    notebooks = []
    for number in range(NOTEBOOKS):
        path = lab.write_notebook(f"n{number}.ipynb", setup(MIB, seed=number + 1), "train(20)\nprint(epoch, SEED, whole())")
        tab.goto(path, reset=number == 0)
        notebook = Notebook(tab, path).connected(90)
        proc.until("there is room on the GPU", lambda: gpu.bytes_held() + (MIB << 20) <= GPU_MIB << 20, 120, pause=0.2)
        assert notebook.run(0, 120) == f"on the GPU: {MIB} MiB"
        notebooks.append(notebook)
    for turn in range(2):
        for number, notebook in enumerate(notebooks):
            notebook.activate()
            # Cell by cell, as one works: whoever was used before the last is asleep by then.
            proc.until("there is room on the GPU", lambda: gpu.bytes_held() + (MIB << 20) <= GPU_MIB << 20, 120, pause=0.2)
            assert notebook.run(1, 120) == f"{20 * (turn + 1)} {number + 1} True"
            assert gpu.bytes_held() <= GPU_MIB << 20
        tab.shot(f"turn-{turn + 1}")
    # The one before the last two is idle as well, but may be on its way to sleep at this moment.
    proc.until("all but two sleep", lambda: asleep(lab) >= NOTEBOOKS - 2, 30, pause=0.2)


def asleep(lab):
    return [session["state"] for session in lab.get("/infinijup/sessions")["sessions"]].count("suspended")
