"""`in_namespace.py OWNER USER WORD…`: runs the words as USER in a user namespace that belongs to OWNER. Only root can make such a
thing: nobody can put a process of theirs into a namespace of somebody else's."""

import ctypes
import os
import sys

CLONE_NEWUSER = 0x10000000

owner, user = int(sys.argv[1]), int(sys.argv[2])
made, mapped = os.pipe(), os.pipe()
child = os.fork()
if not child:
    # Root of the machine writes the map: a namespace's own owner could map nobody but themself.
    os.read(made[0], 1)
    parent = os.getppid()
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{parent}/{name}", "w", encoding="ascii") as file:
            file.write("0 0 100000")
    os.write(mapped[1], b"!")
    os._exit(0)
os.setresuid(owner, owner, owner)
if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
    raise OSError(ctypes.get_errno(), "unshare")
os.write(made[1], b"!")
os.read(mapped[0], 1)
os.waitpid(child, 0)
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
os.execvp(sys.argv[3], sys.argv[3:])
