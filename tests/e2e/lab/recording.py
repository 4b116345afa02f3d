"""A recording as one animated picture: PNG, as every browser shows it, made of screenshots and nothing else.

The browser itself compares each screenshot with the one before and cuts out what has changed; here the pieces are only put together.
The format is that of the PNG specification, third edition: `acTL` says how many frames there are, `fcTL` where each goes and for how long
it stays, and `fdAT` is `IDAT` with a number before it.
"""

import base64
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Of each screenshot the part that differs from the one before, as a PNG without transparency, so that all of them have the same form.
CUT = """
async shots => {
  const load = async shot => {
    const image = new Image();
    image.src = 'data:image/png;base64,' + shot;
    await image.decode();
    return image;
  };
  const canvas = (width, height) => {
    const made = document.createElement('canvas');
    [made.width, made.height] = [width, height];
    return [made, made.getContext('2d', { alpha: false, willReadFrequently: true })];
  };
  const pieces = [];
  let before = null;
  for (const shot of shots) {
    const image = await load(shot);
    const [, drawn] = canvas(image.width, image.height);
    drawn.drawImage(image, 0, 0);
    const now = new Uint32Array(drawn.getImageData(0, 0, image.width, image.height).data.buffer);
    let [left, top, right, bottom] = before ? [image.width, image.height, 0, 0] : [0, 0, image.width, image.height];
    for (let at = 0; before && at < now.length; at++) {
      if (now[at] === before[at]) continue;
      const x = at % image.width, y = (at - x) / image.width;
      [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x + 1), Math.max(bottom, y + 1)];
    }
    // Nothing has changed: a frame cannot be empty.
    if (right <= left) [left, top, right, bottom] = [0, 0, 1, 1];
    const [cut, piece] = canvas(right - left, bottom - top);
    piece.drawImage(image, -left, -top);
    pieces.push({ left, top, width: right - left, height: bottom - top, png: cut.toDataURL('image/png').split(',')[1] });
    before = now;
  }
  return pieces;
}"""


class Recording:
    """Screenshots, and for how long each is seen."""

    def __init__(self):
        self.shots: list[tuple[bytes, float]] = []

    def add(self, png: bytes, seconds: float) -> None:
        """One more."""
        self.shots.append((png, seconds))

    def picture(self, page) -> bytes:
        """All of them. `page` is one that has nothing to do with them, and only lends its canvas."""
        pieces = page.evaluate(CUT, [base64.b64encode(shot).decode() for shot, _ in self.shots])
        heads = [chunks(base64.b64decode(piece["png"])) for piece in pieces]
        # The first one is the whole picture; all others must have its form.
        form = heads[0][0][1]
        assert all(head[0][1][8:] == form[8:] for head in heads), "the browser has cut pieces of several forms"
        made = [chunk(b"IHDR", form), chunk(b"acTL", struct.pack(">II", len(pieces), 0))]
        number = 0
        for index, (piece, head, (_, seconds)) in enumerate(zip(pieces, heads, self.shots, strict=True)):
            place = piece["width"], piece["height"], piece["left"], piece["top"]
            made.append(chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, *place, round(seconds * 1000), 1000, 0, 0)))
            number += 1
            # As small as it gets: pixels once more, compressed with patience.
            pixels = zlib.compress(zlib.decompress(b"".join(body for kind, body in head if kind == b"IDAT")), 9)
            if index == 0:
                made.append(chunk(b"IDAT", pixels))
            else:
                made.append(chunk(b"fdAT", struct.pack(">I", number) + pixels))
                number += 1
        return SIGNATURE + b"".join(made) + chunk(b"IEND", b"")


def chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    """The parts of a PNG file."""
    assert png.startswith(SIGNATURE)
    found, at = [], len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        found.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def chunk(kind: bytes, body: bytes) -> bytes:
    """One part."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
