# What a kernel does in `cell-cost`. Each piece of work is the same amount of work every time, so that what makes it slower shows.
import mmap
import time

import numpy
import pandas

PAGE = 4096
# A piece of the data: a MiB of it is read.
PIECE = 131_072


def make(megabytes):
    """The data that cells go over."""
    global data, at, piece_s
    data = numpy.random.default_rng(3).random(megabytes * 125_000)
    at = 0
    cell(200)
    begun = time.perf_counter()
    cell(200)
    # What a piece takes here and now.
    piece_s = (time.perf_counter() - begun) / 200
    return piece_s


def cell(pieces):
    """Reads so many pieces of the data, from where the last cell has ended, and writes to at most 8 MB of it."""
    global at
    total = 0.0
    for number in range(pieces):
        first = at % max(1, data.size - PIECE)
        part = data[first : first + PIECE]
        total += part.sum()
        if number < 8:
            part += 1.0
        at += PIECE
    return total


def numpy_loop(rounds):
    """Arithmetic over 64 MB, with arrays that come and go."""
    one, other = numpy.arange(4_000_000.0), numpy.ones(4_000_000)
    begun = time.perf_counter()
    for _ in range(rounds):
        other += one * 1e-6
        numpy.sqrt(other, out=other)
    return time.perf_counter() - begun


def pandas_loop(rounds):
    """Groups, sorts and joins over 300,000 rows, with small objects and frames that come and go."""
    random = numpy.random.default_rng(4)
    frame = pandas.DataFrame({"key": random.integers(0, 1000, 300_000), "value": random.random(300_000)})
    begun = time.perf_counter()
    for number in range(rounds):
        means = frame.groupby("key")["value"].mean().rename("mean")
        joined = frame.join(means, on="key")
        joined["name"] = joined["key"].astype(str)
        frame["value"] = joined.sort_values("value")["value"].to_numpy() + number
    return time.perf_counter() - begun


def pages_to_write(megabytes, huge):
    """Memory of small pages or of huge ones, every page written to once."""
    buffer = mmap.mmap(-1, megabytes << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    buffer.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    pages = numpy.frombuffer(buffer, dtype=numpy.uint8)[::PAGE]
    pages += 1
    return pages


def first_writes(pages):
    """Microseconds that the first write to a page takes longer than the next one."""
    took = []
    for _ in range(2):
        begun = time.perf_counter()
        numpy.add(pages, 1, out=pages)
        took.append(time.perf_counter() - begun)
    return (took[0] - took[1]) / pages.size * 1e6
