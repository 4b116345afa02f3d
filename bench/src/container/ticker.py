# What runs in each container: `python3 ticker.py DIRECTORY MIB`. It has so many MiB, half of them noise and half what compresses, no page like another, and a thread
# that keeps the longest time for which it was not able to run. SIGUSR1: it writes as many bytes as `DIRECTORY/order` says to the noise, says how long that time was in
# `DIRECTORY/said`, and begins anew.
import array
import math
import os
import random
import signal
import sys
import threading
import time

MIB, PAGE = 1 << 20, 4096
directory, mib = sys.argv[1], int(sys.argv[2])
source = random.Random(1)
noise = bytearray(mib * MIB // 2)
for at in range(0, len(noise), MIB):
    noise[at : at + MIB] = source.randbytes(MIB)
numbers = array.array("d", (round(math.sin(number / 1e3), 3) for number in range(MIB // 8))).tobytes()
wave = bytearray(numbers * (mib // 2))
for at in range(0, len(wave), PAGE):
    wave[at : at + 8] = at.to_bytes(8, "little")
gap, place = 0.0, 0


def path(name):
    return os.path.join(directory, name)


def watch():
    global gap
    last = time.perf_counter()
    while True:
        time.sleep(0.0005)
        now = time.perf_counter()
        gap, last = max(gap, now - last), now


def beat():
    number = 0
    while True:
        number += 1
        with open(path("beat.new"), "w") as file:
            file.write(str(number))
        os.rename(path("beat.new"), path("beat"))
        time.sleep(0.01)


def obey(*_):
    global gap, place
    with open(path("order")) as file:
        count = int(file.read())
    first = place % (len(noise) - count + 1)
    noise[first : first + count] = source.randbytes(count)
    place += count
    with open(path("said.new"), "w") as file:
        file.write(repr(gap))
    gap = 0.0
    os.rename(path("said.new"), path("said"))


signal.signal(signal.SIGUSR1, obey)
for work in (watch, beat):
    threading.Thread(target=work, daemon=True).start()
while True:
    time.sleep(1000)
