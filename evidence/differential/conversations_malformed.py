"""What no honest client sends: lying batches, unknown requests, impossible frames."""

from __future__ import annotations

import struct
from typing import Any

from evidence.differential.batches import CONTROL_BIT, TRANSACTIONAL_BIT, batch_of, one_record
from evidence.differential.connection import API_NAMED
from evidence.differential.conversation import Conversation, error_name
from evidence.differential.scenario import scenario

INT32_MAX = 2**31 - 1


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhi", api_key, version, 7) + struct.pack(">h", 1) + b"c"


def api_versions(reply: Any) -> str:
    return f"error={error_name(reply.error_code)} keys={'many' if len(reply.api_keys) > 1 else len(reply.api_keys)}"


@scenario("malformed")
def produce_bad_crc(x: Conversation) -> None:
    t = x.topic("a")
    for v in (3, 7, 9, 12):
        x.produce_bytes(t, 0, batch_of([b"x"], timestamp_ms=x.started_ms, breaks_crc=True), " bad crc", v=v)
    flipped = bytearray(batch_of([b"hello"], timestamp_ms=x.started_ms))
    flipped[-3] ^= 0xFF
    x.produce_bytes(t, 0, bytes(flipped), " payload bit flip")
    x.marks(t)


@scenario("malformed")
def produce_bad_magic(x: Conversation) -> None:
    t = x.topic("a")
    for magic in (0, 1, 3, 127, -1):
        for v in (3, 12):
            x.produce_bytes(t, 0, batch_of([b"x"], timestamp_ms=x.started_ms, magic=magic), f" magic {magic}", v=v)
    x.marks(t)


@scenario("malformed")
def produce_counts_lie(x: Conversation) -> None:
    t = x.topic("a", 11)
    two, one = [b"a", b"b"], [b"a"]
    lies: list[tuple[str, list[bytes], dict[str, int]]] = [
        ("lastOffsetDelta 5 of 2 records", two, {"last_offset_delta": 5}),
        ("lastOffsetDelta 0 of 2 records", two, {"last_offset_delta": 0}),
        ("count 3 of 2", two, {"record_count": 3}),
        ("count 3 of 2, consistent delta", two, {"record_count": 3, "last_offset_delta": 2}),
        ("count 1 of 2, consistent delta", two, {"record_count": 1, "last_offset_delta": 0}),
        ("count 0", one, {"record_count": 0, "last_offset_delta": -1}),
        ("count 0, delta 0", one, {"record_count": 0, "last_offset_delta": 0}),
        ("count -1", one, {"record_count": -1}),
        ("no records at all", [], {"record_count": 0, "last_offset_delta": -1}),
        ("count max", one, {"record_count": INT32_MAX, "last_offset_delta": INT32_MAX - 1}),
        ("lastOffsetDelta -1", one, {"last_offset_delta": -1}),
    ]
    for partition, (label, values, fields) in enumerate(lies):
        batch = batch_of(values, timestamp_ms=x.started_ms, **fields)
        x.produce_bytes(t, partition, batch, f" {label}")


@scenario("malformed")
def produce_control_bit(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    stamp = {"timestamp_ms": x.started_ms}
    both = {"attributes": CONTROL_BIT | TRANSACTIONAL_BIT, "producer_id": pid, "producer_epoch": e}
    x.produce_bytes(t, 0, batch_of([b"a"], **stamp, attributes=CONTROL_BIT), " control bit")
    data = batch_of([b"a"], **stamp, **both, base_sequence=0)
    x.produce_bytes(t, 0, data, " control+transactional", "t")
    marker = one_record(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0), 0)
    forged = batch_of([b"a"], **stamp, **both, base_sequence=-1, section=marker)
    x.produce_bytes(t, 0, forged, " a forged commit marker", "t")
    x.produce_bytes(t, 0, forged, " forged marker without tid")
    x.marks(t)
    x.describe("t")


@scenario("core")
def api_versions_unsupported(x: Conversation) -> None:
    for v in (5, 6, 99, 32767):
        connection = x.connection()
        connection.send_bytes(framed(header(18, v) + b"\0" + b"\2x" + b"\2y" + b"\0"))
        correlation_id, reply = connection.receive("ApiVersions", 0)
        keys = [(each.api_key, each.min_version, each.max_version) for each in reply.api_keys]
        x.say(f"v{v}", error_name(reply.error_code), keys, f"corr={correlation_id}", "trailing=0")
        fields = {"client_software_name": "x", "client_software_version": "1"}
        x.say("   same connection afterwards", error_name(connection.call("ApiVersions", 3, fields).error_code))
    x.probe("v-1", framed(header(18, -1)), ("ApiVersions", 0), api_versions)


@scenario("malformed")
def unknown_api_keys(x: Conversation) -> None:
    for api_key in (4, 5, 6, 7, 63, 200, 9999, -1, 32767, -32768):
        x.probe(f"api key {api_key}", framed(header(api_key, 0)))


@scenario("malformed")
def unsupported_versions(x: Conversation) -> None:
    for name, versions in (
        ("Produce", (0, 2, 14)),
        ("Fetch", (0, 3, 19)),
        ("Metadata", (14, -1)),
        ("InitProducerId", (7,)),
        ("EndTxn", (6,)),
        ("TxnOffsetCommit", (6, 7)),
        ("WriteTxnMarkers", (0, 3)),
        ("ListOffsets", (0, 12)),
        ("OffsetCommit", (1, 11)),
        ("OffsetFetch", (0, 11)),
        ("CreateTopics", (1, 8)),
        ("AddPartitionsToTxn", (6,)),
        ("FindCoordinator", (7,)),
        ("DescribeTransactions", (1,)),
        ("ListTransactions", (3,)),
        ("JoinGroup", (10,)),
    ):
        for v in versions:
            x.probe(f"{name} v{v}", framed(header(API_NAMED[name].key, v) + b"\0" * 8))


@scenario("malformed")
def frame_sizes(x: Conversation) -> None:
    x.probe("size -1", struct.pack(">i", -1))
    x.probe("size min", struct.pack(">I", 0x80000000))
    x.probe("size 0", struct.pack(">i", 0))
    x.probe("size 104857601", struct.pack(">i", 104857601))
    x.probe("size 0x7fffffff", struct.pack(">I", 0x7FFFFFFF))
    x.probe("size 4, no header", framed(b"\0\x12\0\0"))
    x.probe("size 7", framed(b"\0\x12\0\0\0\0\0"))
    x.probe("size 8, no client id", framed(struct.pack(">hhi", 18, 0, 1)))
    answers = ("ApiVersions", 0)
    x.probe("size 10, null client id", framed(struct.pack(">hhih", 18, 0, 1, -1)), answers, api_versions)
    x.probe("client id length -2", framed(struct.pack(">hhih", 18, 0, 1, -2)), answers, api_versions)
    x.probe("client id longer than the frame", framed(struct.pack(">hhih", 18, 0, 1, 500)))
    x.probe("http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    x.probe("half a size, then nothing", b"\0\0", timeout_s=0.5)


@scenario("core")
def pipelining_order(x: Conversation) -> None:
    connection = x.connection()
    for index in range(20):
        if index % 3 == 0:
            connection.send("Metadata", 4, {"topics": [], "allow_auto_topic_creation": False})
        elif index % 3 == 1:
            connection.send("ApiVersions", 2, {})
        else:
            connection.send("InitProducerId", 2, {"transactional_id": None, "transaction_timeout_ms": 1000})
    got = [struct.unpack_from(">i", connection.receive_frame())[0] for _ in range(20)]
    x.say("answers in order", got == list(range(1, 21)))


@scenario("core")
def correlation_ids(x: Conversation) -> None:
    connection = x.connection()
    for correlation_id in (0, -1, INT32_MAX, -INT32_MAX - 1, 5, 5):
        connection.send_bytes(connection.frame("ApiVersions", 2, {}, correlation_id))
        x.say(f"corr {correlation_id}", connection.receive("ApiVersions", 2)[0])
