"""Changes to bytes: what a broken client, a broken network or somebody hostile would send."""

from __future__ import annotations

from random import Random

BOUNDS = (
    *(b"\x00", b"\xff", b"\x7f", b"\x80", b"\x01", b"\xff\xff", b"\x7f\xff", b"\x80\x00"),
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff" * 8, b"\x7f" + b"\xff" * 7),
    *(b"\x80" + b"\x00" * 7, b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\xff" * 10),
    b"\x80\x80\x80\x80\x80\x01",
)


def mutated(random: Random, data: bytes, first: int = 0) -> bytes:
    """`data` changed behind `first` in one to three places."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if len(changed) <= first:
            return bytes(changed) + random.randbytes(4)
        at = random.randrange(first, len(changed))
        kind = random.randrange(8)
        if kind == 0:
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            changed[at] = random.randrange(256)
        elif kind == 2:
            bound = random.choice(BOUNDS)
            changed[at : at + len(bound)] = bound
        elif kind == 3:
            changed[at:at] = random.choice(BOUNDS)
        elif kind == 4:
            del changed[at:]
        elif kind == 5:
            del changed[at : at + random.randrange(1, 9)]
        elif kind == 6:
            there = random.randrange(first, len(changed))
            changed[at:at] = changed[there : there + random.randrange(1, 40)]
        else:
            changed += random.randbytes(random.randrange(1, 20))
    return bytes(changed) or b"\0"
