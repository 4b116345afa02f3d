"""`box.py WORD…`: runs the words in a box like the daemon's: namespaces of the user's own, made without any privilege, in which nothing of
the machine's /dev and /run is left but the nodes of the GPUs, and a program without capabilities. (mount(8) does not work for a user
who is not called root, so the calls are made here.)"""

import ctypes
import os
import signal
import sys

NEWUSER, OTHERS = 0x10000000, 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000  # mnt, pid, net, ipc, uts
BIND, REC, PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
NODES = ["null", "zero", "random", "urandom", "nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"]

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    words = [word.encode() if isinstance(word, str) else word for word in arguments]
    if getattr(libc, name)(*words):
        raise OSError(ctypes.get_errno(), f"{name} {arguments}")


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


user, group = os.getuid(), os.getgid()
call("unshare", NEWUSER)
write("/proc/self/setgroups", "deny")
write("/proc/self/uid_map", f"{user} {user} 1")
write("/proc/self/gid_map", f"{group} {group} 1")
call("unshare", OTHERS)
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
call("mount", "none", "/", None, REC | PRIVATE, None)
call("mount", "run", "/run", "tmpfs", 0, "mode=755")
os.mkdir("/run/dev")
for node in NODES:
    write(f"/run/dev/{node}", "")
    call("mount", f"/dev/{node}", f"/run/dev/{node}", None, BIND, None)
call("mount", "/run/dev", "/dev", None, BIND | REC, None)
call("mount", "proc", "/proc", "proc", 0, None)
call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
# An exec by somebody who is not root leaves no capability.
os.execv(sys.argv[1], sys.argv[1:])
