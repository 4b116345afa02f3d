"""Where something was mapped when the last snapshot was taken, something else is now, and may be opened by other rights.

The kernel tells by which rights a mapped file is open (`/proc/PID/map_files`), but goes on telling it of whatever was there when somebody
asked first, as long as the addresses are the same.
"""

MAPS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
READ, WRITE, SHARED, PRIVATE, FIXED, ANONYMOUS, SIZE = 1, 2, 1, 2, 16, 32, 4 << 12

def mapped(at, protection, flags, path=None, how=os.O_RDONLY):
    file = -1 if path is None else os.open(path, how)
    address = libc.mmap(at, SIZE, protection, flags | (FIXED if at else 0), file, 0)
    assert address != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    if file >= 0: os.close(file)
    return address

roots = os.__file__  # A file that the kernel's user may read, and not write.
open('own', 'wb').write(b'x' * SIZE)
"""


def test_a_mapping_in_the_place_of_another(commands, user):
    session = commands.kernel("again", cwd=user.mkdir(user.home / "work"))
    kernel = session.kernel
    kernel.run(MAPS)
    kernel.run("one, two = (mapped(None, READ | WRITE, SHARED | ANONYMOUS) for _ in range(2)); three = mapped(None, READ, PRIVATE, roots)")
    session.snapshot()
    kernel.run("mapped(one, READ, PRIVATE, roots); mapped(two, READ, SHARED, roots); mapped(three, READ | WRITE, SHARED, 'own', os.O_RDWR)")
    kernel.run("ctypes.memmove(three, b'before', 6)")
    taken = session.snapshot()
    kernel.run("ctypes.memmove(three, b'after!', 6)")

    session.rollback(taken["commit"])
    kernel.ready()
    assert kernel.value("[ctypes.string_at(at, 100) == open(roots, 'rb').read(100) for at in (one, two)]") == [True, True]
    assert kernel.value("ctypes.string_at(three, 8).decode()") == "beforexx"
    kernel.run("ctypes.memmove(three, b'again!', 6)")
    assert (user.home / "work/own").read_bytes()[:8] == b"again!xx"
