"""`with_ids.py REAL,EFFECTIVE,SAVED[,THREAD] PYTHON SCRIPT WORD…`: runs the script with these user ids, and with a thread that has another
if a fourth is given. It is run here and not executed, because an exec would make the effective id the saved one."""

import ctypes
import os
import platform
import runpy
import sys
import threading

SETRESUID = {"x86_64": 117, "aarch64": 147}[platform.machine()]


def change(*ids):
    """For this thread alone: the C library's own function changes all of them."""
    if ctypes.CDLL(None, use_errno=True).syscall(SETRESUID, *ids):
        raise OSError(ctypes.get_errno(), "setresuid")


real, effective, saved, *thread = (int(word) for word in sys.argv[1].split(","))
sys.argv = sys.argv[3:]
os.setgroups([])
for user in thread:
    changed = threading.Event()

    def other(user=user, changed=changed):
        change(user, user, user)
        changed.set()
        threading.Event().wait()

    threading.Thread(target=other, daemon=True).start()
    changed.wait()
change(real, effective, saved)
runpy.run_path(sys.argv[0], run_name="__main__")
