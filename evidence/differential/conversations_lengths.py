"""Lengths that no frame can hold: compact ones beyond int32, and variable-length numbers longer than Java reads."""

from __future__ import annotations

import gzip
import struct

from evidence.differential.batches import batch_of
from evidence.differential.conversation import Conversation
from evidence.differential.conversations_malformed import framed
from evidence.differential.scenario import scenario

NUMBERS = {
    "2^31-1": b"\xff\xff\xff\xff\x07",
    "2^31": b"\x80\x80\x80\x80\x08",
    "2^31+1": b"\x81\x80\x80\x80\x08",
    "2^32-1": b"\xff\xff\xff\xff\x0f",
    "2^32": b"\x80\x80\x80\x80\x10",
    "2^35-1": b"\xff\xff\xff\xff\x7f",
    "2^35": b"\x80\x80\x80\x80\x80\x01",
    "1 in five bytes": b"\x81\x80\x80\x80\x00",
    "1 in six bytes": b"\x81\x80\x80\x80\x80\x00",
}


def header(api_key: int, version: int, tags: bytes = b"\0") -> bytes:
    return struct.pack(">hhih", api_key, version, 7, 1) + b"c" + tags


@scenario("malformed")
def compact_lengths(x: Conversation) -> None:
    """One less than 2^31 + 0 is the largest int32 in Java; one less than anything above is negative, and so null."""
    t = x.topic("a")
    metadata = ("Metadata", 12)
    for name, number in NUMBERS.items():
        x.probe(
            f"topics, an array that may be null: {name}",
            framed(header(3, 12) + number + b"\0\0\0"),
            metadata,
            lambda found: f"all={t in [each.name for each in found.topics]}",
        )
        x.probe(
            f"a topic's name: {name}",
            framed(header(3, 12) + b"\2" + b"\0" * 16 + number + b"a\0" + b"\0\0\0"),
        )
        x.probe(f"keys, an array: {name}", framed(header(10, 4) + b"\0" + number + b"\0"))
        x.probe(
            f"a transactional id, which may be null: {name}",
            framed(header(22, 4) + number + struct.pack(">iqh", 60_000, 5, -1) + b"\0"),
            ("InitProducerId", 4),
            lambda found: f"error={found.error_code}",
        )
        x.probe(f"a string: {name}", framed(header(18, 3) + number), timeout_s=5)
        records = struct.pack(">hi", -1, 1000) + b"\2\4zzq\2" + struct.pack(">i", 0) + number
        x.probe(
            f"records: {name}",
            framed(header(0, 9) + b"\0" + records + b"\0\0\0"),
            ("Produce", 9),
            lambda found: f"error={found.responses[0].partition_responses[0].error_code}",
        )


@scenario("malformed")
def counts_and_sizes_of_tagged_fields(x: Conversation) -> None:
    """A negative count of them is none."""
    answers = ("Metadata", 12)

    def topics(found: object) -> str:
        return f"answered={len(found.topics)}"  # type: ignore[attr-defined]

    for name, number in NUMBERS.items():
        x.probe(f"tagged fields of a request: {name}", framed(header(3, 12) + b"\1\0\0" + number), answers, topics)
        x.probe(f"tagged fields of a header: {name}", framed(header(3, 12, number) + b"\1\0\0\0"), answers, topics)
        x.probe(f"a tag: {name}", framed(header(3, 12) + b"\1\0\0\1" + number + b"\0"), answers, topics)
        x.probe(f"a tag's size: {name}", framed(header(3, 12) + b"\1\0\0\1\x09" + number), answers, topics)


def zigzag(number: int) -> bytes:
    raw = ((number << 1) ^ (number >> 63)) & (1 << 64) - 1
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    return bytes([*out, raw])


def stretched(number: int, size_bytes: int, last: int = 0) -> bytes:
    """A number in more bytes than it needs."""
    data = bytearray(zigzag(number))
    data[-1] |= 128
    data += b"\x80" * (size_bytes - 1 - len(data))
    return bytes([*data, last])


def record(length_bytes: int = 1, **fields: bytes) -> bytes:
    given = {"attributes": b"\0", "timestamp": b"\0", "offset": b"\0", "key": b"\2k", "value": b"\2v", "headers": b"\0"}
    body = b"".join((given | fields).values())
    return (zigzag(len(body)) if length_bytes == 1 else stretched(len(body), length_bytes)) + body


@scenario("malformed")
def numbers_inside_records(x: Conversation) -> None:
    """Numbers of 32 bits have five bytes at most: what is longer no Java consumer could read."""
    t = x.topic("a", 2)
    sections = {
        "a length of five bytes": record(5),
        "a length of six bytes": record(6),
        "a length of ten bytes": record(10),
        "a timestamp of ten bytes": record(timestamp=stretched(0, 10)),
        "a timestamp of eleven bytes": record(timestamp=stretched(0, 11)),
        "an offset of five bytes": record(offset=stretched(0, 5)),
        "an offset of six bytes": record(offset=stretched(0, 6)),
        "an offset beyond 32 bits": record(offset=stretched(0, 5, 16)),
        "a key's length of five bytes": record(key=stretched(1, 5) + b"k"),
        "a key's length of six bytes": record(key=stretched(1, 6) + b"k"),
        "a key's length of -2": record(key=zigzag(-2)),
        "a value's length of six bytes": record(value=stretched(1, 6) + b"v"),
        "a count of headers of five bytes": record(headers=stretched(1, 5) + b"\2a\2b"),
        "a count of headers of six bytes": record(headers=stretched(1, 6) + b"\2a\2b"),
        "a header key's length of six bytes": record(headers=b"\2" + stretched(1, 6) + b"a\2b"),
        "a header value's length of six bytes": record(headers=b"\2\2a" + stretched(1, 6) + b"b"),
    }
    for name, section in sections.items():
        x.produce_bytes(t, 0, batch_of([b"x"], timestamp_ms=x.started_ms, section=section), f" {name}")
        packed = batch_of([b"x"], timestamp_ms=x.started_ms, section=gzip.compress(section), attributes=1)
        x.produce_bytes(t, 1, packed, f" gzip, {name}")
