"""CRIU's images, to be changed: a magic number or two, then entries, each a length and a message of protobuf.

A message is kept as a list of (field, wire type, value), so that what is not understood stays as it was.
"""

import struct

COMMON_MAGICS = (0x54564319, 0x55105940)


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def parse(data):
    """A message as its fields."""
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 2:
            length, at = read_varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = data[at : at + size], at + size
        fields.append((number, kind, value))
    return fields


def build(fields):
    """The fields as a message."""
    out = b""
    for number, kind, value in fields:
        out += varint(number << 3 | kind)
        out += varint(value) if kind == 0 else varint(len(value)) + value if kind == 2 else value
    return out


def put(fields, number, *values):
    """All values of a numeric field, in the place of those that it had."""
    return [field for field in fields if field[0] != number] + [(number, 0, value) for value in values]


def change_within(fields, path, change):
    """Applies `change` to the fields of the message that a path of field numbers leads to."""
    if not path:
        return change(fields)
    return [
        (number, kind, build(change_within(parse(value), path[1:], change)) if number == path[0] else value)
        for number, kind, value in fields
    ]


def edit(image, change):
    """Rewrites each entry of an image."""
    data = image.read_bytes()
    at = 8 if struct.unpack_from("<I", data)[0] in COMMON_MAGICS else 4
    out = data[:at]
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        entry = build(change(parse(data[at + 4 : at + 4 + length])))
        out += struct.pack("<I", len(entry)) + entry
        at += 4 + length
    # The same file, and so the same owner.
    image.write_bytes(out)
