"""Produce: versions, codecs, acks, sizes, names."""

from __future__ import annotations

from evidence.differential.batches import batch_of
from evidence.differential.connection import ConnectionClosed, NoReply
from evidence.differential.conversation import READ_UNCOMMITTED, Conversation, produce_request
from evidence.differential.scenario import scenario
from oncelog.errors import ErrorCode
from oncelog.wire.record_batch import batches

UNKNOWN_ID = bytes(15) + b"\xfe"


@scenario("core")
def produce_codecs_and_versions(x: Conversation) -> None:
    t = x.topic("a")
    for codec in (0, 1, 2, 3, 4):
        for v in (3, 6, 7, 9, 12):
            x.produce(t, 0, [b"c%d" % codec] * 2, codec=codec, v=v, label=f" codec {codec}")
    x.fetch(t, 0, 0, READ_UNCOMMITTED, v=12)
    x.fetch(t, 0, 0, READ_UNCOMMITTED, v=9, shows=False, label=" zstd for an old fetch")
    x.fetch(t, 0, 20, READ_UNCOMMITTED, v=9, shows=False, label=" zstd for an old fetch")
    x.fetch(t, 0, 20, READ_UNCOMMITTED, v=10, shows=False)


@scenario("core")
def produce_versions_plain(x: Conversation) -> None:
    t = x.topic("a")
    tid = x.topic_id(t)
    for v in range(3, 13):
        x.produce(t, 0, [b"v%d" % v], v=v)
    x.produce(tid, 0, [b"v13"], v=13)
    x.produce(UNKNOWN_ID, 0, [b"q"], v=13, label=" unknown id")
    x.fetch(t, 0, 0, READ_UNCOMMITTED)


@scenario("core")
def produce_topic_errors(x: Conversation) -> None:
    t = x.topic("a")
    x.produce(t, 5, [b"q"], label=" partition 5 of 1")
    x.produce(t, -1, [b"q"], label=" partition -1")
    x.produce(x.name("nosuch"), 0, [b"q"])
    x.produce("bad topic!", 0, [b"q"])
    x.produce("", 0, [b"q"], label=" empty name")
    x.produce("__consumer_offsets", 0, [b"q"])
    x.produce("__transaction_state", 0, [b"q"])


@scenario("core")
def produce_acks(x: Conversation) -> None:
    t = x.topic("a")
    for a in (1, -1):
        x.produce(t, 0, [b"q"], acks=a, label=f" acks={a}")
    for a in (2, -2, 32767):
        x.produce(t, 0, [b"q"], acks=a, label=f" acks={a}")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", acks=1, label=" transactional acks=1")
    i, ie = x.init(None)
    x.produce(t, 0, n=1, producer=(i, ie), sequence=0, acks=1, label=" idempotent acks=1")
    x.marks(t)


@scenario("core")
def produce_too_large(x: Conversation) -> None:
    t = x.topic("a", max_message_bytes=1000)
    x.produce(t, 0, [b"x" * 500], label=" 500")
    x.produce(t, 0, [b"x" * 2000], label=" 2000")
    x.produce(t, 0, [b"x" * 2000], codec=1, label=" 2000 compressed to little")
    x.produce(t, 0, [b"x" * 2000], v=3, label=" 2000")
    pid, e = x.init("t")
    x.produce(t, 0, [b"x" * 2000], producer=(pid, e), sequence=0, transactional_id="t", label=" 2000")
    x.describe("t")
    x.produce(t, 0, [b"x"], producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, True, settle=True)


@scenario("core")
def produce_compacted_topic_needs_keys(x: Conversation) -> None:
    t = x.topic("a", cleanup_policy="compact")
    x.produce(t, 0, [b"v"], label=" no key")
    x.produce(t, 0, [b"v"], keys=[b"k"], label=" key")
    x.produce(t, 0, [b"v", b"w", b"u"], keys=[b"k", None, b"j"], label=" one of three without key")
    x.produce(t, 0, [b"v"], codec=1, label=" compressed, no key")
    x.produce(t, 0, [b"v"], keys=[b"k"], null_values=True, label=" tombstone")
    u = x.topic("b", cleanup_policy="compact,delete")
    x.produce(u, 0, [b"v"], label=" compact,delete: no key")


@scenario("core")
def produce_acks_zero(x: Conversation) -> None:
    t = x.topic("a")
    connection = x.connection()

    def produce(topic: str, value: bytes) -> None:
        batch = batch_of([value], timestamp_ms=x.started_ms)
        connection.send("Produce", 12, produce_request(topic, 0, batch, acks=0))

    produce(t, b"a")
    produce(t, b"b")
    reply = connection.call("ApiVersions", 2, {})
    x.say("next reply on the connection is ApiVersions", int(reply.error_code))
    x.wait_until_stable(t, 0, 2)
    x.marks(t)
    produce(x.name("nosuch"), b"c")
    try:
        connection.send("ApiVersions", 2, {})
        connection.receive("ApiVersions", 2)
        x.say("after an acks=0 error", "OPEN")
    except (ConnectionClosed, ConnectionError):
        x.say("after an acks=0 error", "CLOSED")
    except NoReply:
        x.say("after an acks=0 error", "NO-REPLY")


@scenario("edge")
def produce_headers_and_keys_kept(x: Conversation) -> None:
    t = x.topic("a")
    headers = [("h", b"1"), ("h", None), ("", b"")]
    x.produce(t, 0, [b"v", b"", b"w"], keys=[b"k", None, b""], headers=headers)
    (batch,) = batches(x.fetch_partition(t, 0, 0).records)
    for record in batch.records():
        key = None if record.key is None else bytes(record.key)
        value = None if record.value is None else bytes(record.value)
        pairs = [(name.encode(), None if each is None else bytes(each)) for name, each in record.headers]
        x.say(str(record.offset), key, value, x.time(record.timestamp), pairs)


@scenario("core")
def batch_larger_than_a_segment(x: Conversation) -> None:
    t = x.topic("a", segment_bytes=1048576, max_message_bytes=3000000)
    x.produce(t, 0, [b"v" * 1_500_000], label=" 1500000 bytes")
    x.produce(t, 0, [b"v" * 1_000_000], label=" 1000000 bytes")
    pid, e = x.init("t")
    x.produce(t, 0, [b"v" * 1_500_000], producer=(pid, e), sequence=0, transactional_id="t", label=" 1500000 bytes")
    x.describe("t")


@scenario("core")
def more_replicas_wanted_than_there_are(x: Conversation) -> None:
    """min.insync.replicas of 2 with one replica: no more than there are replicas is asked for (KIP-966)."""
    t = x.topic("a", min_insync_replicas=2)
    for v in (3, 9, 12):
        for acks in (-1, 1):
            x.produce(t, 0, [b"v"], acks=acks, v=v, label=f" acks={acks}")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" acks=all")
    x.describe("t")


@scenario("core")
def segments_and_offsets(x: Conversation) -> None:
    """A log of several segments is read and looked up as one."""
    t = x.topic("a", segment_bytes=1048576)
    for index in range(5):
        x.produce(t, 0, [b"%d" % index + b"v" * 500_000], ts=x.started_ms + 1000 * index, quiet=True)
    for distance in (0, 1500, 4000, 4001):
        x.offsets(t, 0, x.started_ms + distance)
    for offset in (0, 3, 5):
        x.fetch(t, 0, offset, READ_UNCOMMITTED, shows=False)
    x.delete_records(t, 3)
    x.offsets(t, 0, -2)
    x.offsets(t, 0, x.started_ms)


@scenario("core")
def records_for_the_coordinators_own_topics(x: Conversation) -> None:
    """From nobody; Apache Kafka takes them from who calls himself `__admin_client` (told by the next check, of the checksum)."""
    x.find_group("g")
    damaged = batch_of([b"v"], timestamp_ms=x.started_ms, breaks_crc=True)
    for client_id in ("differential", "__admin_client", "__admin_client2"):
        partition = {"index": 0, "records": bytes(damaged)}
        data = [{"name": "__consumer_offsets", "partition_data": [partition]}]
        fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": data}
        connection = x.connection()
        connection.send_bytes(connection.frame("Produce", 9, fields, client_id=client_id))
        found = connection.receive("Produce", 9)[1].responses[0].partition_responses[0]
        x.say(f"damaged batch for __consumer_offsets from {client_id}", ErrorCode(found.error_code).name)
