"""Record batches: whole ones, ones that lie in a field, ones that were hit by something."""

from __future__ import annotations

from random import Random
from typing import Any

from oncelog.wire.crc32c import crc32c
from oncelog.wire.record_batch import Codec, build_batch, build_end_txn_marker

CODECS = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
SEQUENCES = (0, 0, 1, -1, 2**31 - 1)
FIELDS = ((0, 8), (8, 4), (12, 4), (16, 1), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4))


def random_batch(random: Random, actor: Any, now_ms: int) -> bytes | None:
    """What a Produce may carry for one partition."""
    chance = random.random()
    if chance < 0.02:
        return None
    if chance < 0.04:
        return random.randbytes(random.randrange(120))
    if chance < 0.06:
        return bytes(
            build_end_txn_marker(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=now_ms)
        )
    batch = whole_batch(random, actor, now_ms)
    if chance < 0.60:
        return bytes(batch)
    if chance < 0.70:
        return bytes(batch) * 2
    damage(random, batch)
    if chance < 0.95:
        seal(batch)
    return bytes(batch)


def whole_batch(random: Random, actor: Any, now_ms: int) -> bytearray:
    """One that may be appended, if its producer is who it says."""
    count = random.choice((1, 1, 2, 5))
    rows = [
        (
            random.choice((now_ms, now_ms, 0, -1, 2**62)),
            random.choice((None, b"k", b"")),
            random.choice((None, b"v", b"v" * 200)),
            (("h", b"x"),) if random.random() < 0.1 else (),
        )
        for _ in range(count)
    ]
    codec = random.choice(CODECS)
    if actor.producer_id < 0 or random.random() < 0.3:
        return build_batch(rows, codec=codec)
    sequence = actor.sequences.get(0, 0) if random.random() < 0.8 else random.choice(SEQUENCES)
    actor.sequences[0] = (sequence + count) & 0x7FFFFFFF
    return build_batch(
        rows,
        codec=codec,
        producer_id=actor.producer_id,
        producer_epoch=max(min(actor.producer_epoch, 32767), 0),
        base_sequence=sequence,
        is_transactional=random.random() < 0.7,
    )


def damage(random: Random, batch: bytearray) -> None:
    """Change one header field to a bound, or some bytes to anything, or cut."""
    kind = random.randrange(4)
    if kind == 0:
        position, size_bytes = random.choice(FIELDS)
        high = (1 << (8 * size_bytes)) - 1
        value = random.choice((0, high, high >> 1, 1, random.randint(0, high)))
        batch[position : position + size_bytes] = value.to_bytes(size_bytes, "big")
    elif kind == 1 and len(batch) > 61:
        for _ in range(random.randrange(1, 4)):
            batch[random.randrange(61, len(batch))] = random.randrange(256)
    elif kind == 2:
        batch[random.randrange(len(batch))] ^= 1 << random.randrange(8)
    else:
        del batch[random.randrange(len(batch)) :]


def seal(batch: bytearray) -> None:
    """Make length and checksum right, so that the damage is met behind them."""
    if len(batch) > 61:
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
