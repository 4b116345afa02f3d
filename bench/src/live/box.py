"""A bare box: what a session lives in, made with system calls alone by the ordinary user who runs this, without our programs.

This process makes a user namespace that maps its own id to itself. With the capabilities that it has in there it makes the others: IPC, UTS,
network, PID and time. The last two it does not enter itself; its children are born in them. The first child is the *holder*: process 1, which
makes the mount namespace and from then on only reaps. Every later child joins it there for one errand: to start a tree, whose first
process has the number 300, or to become CRIU. CRIU then has the same namespaces as the tree and need not save any.

`box.py DIRECTORY [NODE…]` answers with the holder's number once the box is up. DIRECTORY is seen inside at /run/box; NODE are further
devices of the machine's /dev. Then it is fed with lines, each an object `{"do": NAME, …}`, and answers each with the errand's exit code. The
box ends with this process.
"""

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
import time

NEWTIME, NEWNS, NEWUTS, NEWIPC = 0x80, 0x20000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 24, 38, 47
AMBIENT_RAISE, AMBIENT_CLEAR_ALL = 2, 4
CAP_SETUID = 7
# The kernel never hands out a lower number once it has counted through all: those below stay free for CRIU.
ROOT = 300
SEEN_AT = "/run/box"
NODES = ("null", "zero", "full", "random", "urandom", "tty")

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    """A system call by its name in the C library; fails as Python's own do."""
    words = [argument.encode() if isinstance(argument, str) else argument for argument in arguments]
    if libc[name](*words) == -1:
        raise OSError(ctypes.get_errno(), f"{name}{arguments}: {os.strerror(ctypes.get_errno())}")


def write(path, text):
    """One write to a file of the kernel's."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


# ---- making the box ----


def make(directory, nodes):
    """Makes all namespaces; the number of the holder, as the machine counts."""
    uid, gid = os.getuid(), os.getgid()
    call("unshare", NEWUSER)
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{uid} {uid} 1")
    write("/proc/self/gid_map", f"{gid} {gid} 1")
    call("unshare", NEWPID | NEWIPC | NEWUTS | NEWNET | NEWTIME)
    reader, writer = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.close(reader)
        in_child(lambda: hold(directory, nodes, writer))
    os.close(writer)
    with os.fdopen(reader) as pipe:
        if pipe.read() != "up":
            raise SystemExit("the box did not come up")
    return holder


def hold(directory, nodes, writer):
    """Process 1 of the box."""
    call("unshare", NEWNS)
    build(directory, nodes)
    loopback_up()
    os.chdir("/")
    drop_capabilities()
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    os.write(writer, b"up")
    os.close(writer)
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def build(directory, nodes):
    """The file system: the machine's, with /dev, /run and /proc made anew."""
    call("mount", None, "/", None, RECURSIVE | PRIVATE, None)
    # Opened before what is mounted hides it.
    own = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    devices = [(name, os.open(f"/dev/{name}", os.O_PATH)) for name in (*NODES, *nodes)]
    os.umask(0)
    call("mount", "tmpfs", "/dev", "tmpfs", NOSUID, "mode=755,size=1m")
    for name, device in devices:
        os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o644))
        call("mount", f"/proc/self/fd/{device}", f"/dev/{name}", None, BIND, None)
        os.close(device)
    for link, target in (("fd", "/proc/self/fd"), ("ptmx", "pts/ptmx")):
        os.symlink(target, f"/dev/{link}")
    for name in ("shm", "pts"):
        os.mkdir(f"/dev/{name}")
    call("mount", "tmpfs", "/dev/shm", "tmpfs", NOSUID | NODEV, "mode=1777")
    call("mount", "devpts", "/dev/pts", "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    call("mount", "tmpfs", "/run", "tmpfs", NOSUID | NODEV, "mode=755")
    os.mkdir(SEEN_AT)
    call("mount", f"/proc/self/fd/{own}", SEEN_AT, None, BIND, None)
    os.close(own)
    os.umask(0o022)
    # Last: until here descriptors are named by the machine's.
    call("mount", "proc", "/proc", "proc", NOSUID | NODEV | NOEXEC, None)


def loopback_up():
    """`ip link set lo up`."""
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    with socket.socket() as any_socket:
        name, flags = struct.unpack("16sh22x", fcntl.ioctl(any_socket, get_flags, struct.pack("16sh22x", b"lo", 0)))
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh22x", name, flags | up))


# ---- capabilities ----


def capabilities():
    """All that this kernel knows."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        return range(int(file.read()) + 1)


def set_capabilities(wanted):
    """Effective, permitted and inheritable."""
    bits = sum(1 << capability for capability in wanted)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    call("capset", struct.pack("II", 0x20080522, 0), struct.pack("6I", low, low, low, high, high, high))


def drop_capabilities():
    """None from here on, and none to be had by running another program."""
    for capability in capabilities():
        call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    call("prctl", PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL, 0, 0, 0)
    set_capabilities([])
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def hand_on_capabilities():
    """The next program keeps them. With CAP_SETUID, CRIU would try to become user 0, whom the namespace does not know."""
    wanted = [capability for capability in capabilities() if capability != CAP_SETUID]
    set_capabilities(wanted)
    for capability in wanted:
        call("prctl", PR_CAP_AMBIENT, AMBIENT_RAISE, capability, 0, 0)


# ---- errands in a box that is up ----


def in_child(work):
    """Does something in a process that has just been forked, and ends it."""
    try:
        work()
        sys.stderr.flush()
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(125)


def errand(holder, work):
    """Does something in the box, in a process of its own; its exit code."""
    pid = os.fork()
    if pid == 0:

        def join():
            # The other namespaces it was born in.
            mounts = os.open(f"/proc/{holder}/ns/mnt", os.O_RDONLY)
            call("setns", mounts, NEWNS)
            os.close(mounts)
            os.chdir("/")
            work()

        in_child(join)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def launch(holder, argv, env):
    """Starts a command below the first process of a tree."""

    def start():
        write("/proc/sys/kernel/ns_last_pid", str(ROOT - 1))
        # It falls to the holder when its parent ends.
        if os.fork() == 0:
            in_child(become)

    def become():
        if os.getpid() != ROOT:
            raise SystemExit(f"the tree's root got the number {os.getpid()}")
        os.setsid()
        for number, path, flags in ((0, "/dev/null", os.O_RDONLY), (1, f"{SEEN_AT}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)):
            opened = os.open(path, flags, 0o644)
            os.dup2(opened, number)
            os.close(opened)
        os.dup2(1, 2)
        drop_capabilities()
        # Python ignores it, and a program would inherit that.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execve("/bin/sh", ["sh", "-c", '"$@" & wait', "sh", *argv], env)

    return errand(holder, start)


def criu(holder, program, words, images):
    """`criu WORDS` with the directory of its images, made if it is not there; it complains to a file in the box's directory."""
    if images is not None:
        os.makedirs(images, exist_ok=True)
        images = os.open(images, os.O_RDONLY | os.O_DIRECTORY)

    def become():
        complaints = os.open(f"{SEEN_AT}/criu.stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(complaints, 1)
        os.dup2(complaints, 2)
        os.close(complaints)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        directory = []
        if images is not None:
            # Where it lies the box may have something else mounted, so it is named by its descriptor.
            os.set_inheritable(images, True)
            directory = ["--images-dir", f"/proc/self/fd/{images}"]
        hand_on_capabilities()
        # In that directory it keeps what it learns about the kernel.
        env = {"XDG_RUNTIME_DIR": "/run", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
        os.execve(program, [program, "--no-default-config", "--unprivileged", *words, *directory], env)

    code = errand(holder, become)
    if images is not None:
        os.close(images)
    return code


def empty(holder):
    """Ends everything in the box but the holder, and waits until it is gone."""

    def kill():
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        ours = {"1", str(os.getpid())}
        while any(name.isdigit() and name not in ours for name in os.listdir("/proc")):
            time.sleep(0.001)

    return errand(holder, kill)


def main():
    directory, *nodes = sys.argv[1:]
    # CRIU refuses a tree with a descriptor from outside, and whoever started us may have left us some.
    os.closerange(3, 4096)
    holder = make(directory, nodes)
    print(json.dumps(holder), flush=True)
    errands = {"launch": launch, "criu": criu, "empty": empty}
    for line in sys.stdin:
        ask = json.loads(line)
        print(json.dumps(errands[ask.pop("do")](holder, **ask)), flush=True)
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)


main()
