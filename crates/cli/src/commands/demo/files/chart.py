"""Draws a curve as a picture, with nothing but what Python brings along. Your own notebooks use whatever you like."""

import struct
import zlib

from IPython.display import Image

WIDTH, HEIGHT, EDGE = 640, 220, 12
BLUE, GREY = (25, 118, 210), (225, 228, 232)


def draw(values, colour=BLUE):
    """A picture of these values, from left to right."""
    picture = [[(255, 255, 255)] * WIDTH for _ in range(HEIGHT)]
    for line in range(5):
        picture[EDGE + line * (HEIGHT - 2 * EDGE) // 4] = [GREY] * WIDTH
    low, high = min(values), max(values)
    heights = [height_of(values, column, low, high) for column in range(WIDTH + 1)]
    for column in range(WIDTH):
        top, bottom = sorted(heights[column : column + 2])
        for row in range(int(top) - 2, int(bottom) + 4):
            # Pixels at the edge of the curve get a part of its colour.
            share = max(0.0, min(1.0, 1.8 - max(top - row, row - bottom)))
            picture[row][column] = tuple(round(old + (new - old) * share) for old, new in zip(picture[row][column], colour))
    return Image(png(picture))


def height_of(values, column, low, high):
    """How far from the top the curve is in a column of the picture."""
    place = column / WIDTH * (len(values) - 1)
    left = min(int(place), len(values) - 2)
    value = values[left] + (values[left + 1] - values[left]) * (place - left)
    return HEIGHT - 1 - EDGE - (value - low) / ((high - low) or 1) * (HEIGHT - 1 - 2 * EDGE)


def png(picture):
    """The bytes of a PNG file."""

    def part(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes(channel for pixel in row for channel in pixel) for row in picture)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")
