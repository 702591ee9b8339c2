"""Produce in every version: who may write what into which transaction, and what each version is told (KIP-890)."""

from __future__ import annotations

from evidence.differential.batches import TRANSACTIONAL_BIT, batch_of
from evidence.differential.conversation import READ_COMMITTED, Conversation, error_name
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import FOREIGN, timed_out

NAMED = range(3, 13)  # v13 names topics by their id


def key(x: Conversation, topic: str, v: int) -> str:
    return x.topic_id(topic) if v >= 13 else topic  # type: ignore[no-any-return]


@family("core", range(3, 14))
def produce_unverified(x: Conversation, v: int) -> None:
    """KIP-890 §3: below v12 a partition that was not added is refused, in the words of the version; v12 adds it."""
    t = x.topic("a", 2)
    pid, e = x.init("t")
    where = key(x, t, v)
    x.produce(where, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v, label=" nothing added")
    x.add("t", pid, e, [(t, [1])])
    x.produce(where, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=v, label=" another was added")
    x.produce(where, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v, label=" this one was added")
    x.describe("t")


@family("core", range(3, 14))
def produce_identity(x: Conversation, v: int) -> None:
    """The coordinator's refusals, as each version puts them; partition 1 has met the producer, partition 0 has not."""
    t = x.topic("a", 2)
    x.init("t")
    pid, e = x.init("t")
    where = key(x, t, v)
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t", quiet=True)
    pid, e = x.end("t", pid, e, True, settle=True)
    for partition in (0, 1):
        options = {"sequence": 0, "v": v}
        x.produce(where, partition, n=1, producer=(pid, e - 1), transactional_id="t", **options, label=" epoch behind")
        x.produce(where, partition, n=1, producer=(pid, e + 1), transactional_id="t", **options, label=" epoch ahead")
        x.produce(where, partition, n=1, producer=(pid + FOREIGN, e), transactional_id="t", **options, label=" foreign")
        x.produce(where, partition, n=1, producer=(pid, e), transactional_id="nosuch", **options, label=" unknown tid")
    x.describe("t")


@family("core", range(3, 14))
def produce_sequences(x: Conversation, v: int) -> None:
    """Idempotent: the window of five, gaps, epochs."""
    t = x.topic("a")
    where = key(x, t, v)
    pid, _ = x.init(None)
    for s in range(6):
        x.produce(where, 0, n=1, producer=(pid, 3), sequence=s, v=v, quiet=True)
    for s in (5, 1, 0):
        x.produce(where, 0, n=1, producer=(pid, 3), sequence=s, v=v, label=" duplicate")
    x.produce(where, 0, n=1, producer=(pid, 3), sequence=7, v=v, label=" gap")
    x.produce(where, 0, n=2, producer=(pid, 3), sequence=5, v=v, label=" overlap")
    x.produce(where, 0, n=1, producer=(pid, 4), sequence=1, v=v, label=" newer epoch, not from 0")
    x.produce(where, 0, n=1, producer=(pid, 4), sequence=0, v=v, label=" newer epoch")
    x.produce(where, 0, n=1, producer=(pid, 3), sequence=6, v=v, label=" older epoch")
    x.produce(where, 0, n=1, producer=(pid, 4), sequence=-1, v=v, label=" no sequence")
    x.producers(t)


@family("core", range(3, 14))
def produce_refusals(x: Conversation, v: int) -> None:
    """Plain records that are refused before any producer is looked at."""
    t = x.topic("a", max_message_bytes=2000)
    where = key(x, t, v)
    x.produce(where, 7, [b"v"], v=v, label=" no such partition")
    for acks in (2, -2):
        x.produce(where, 0, [b"v"], v=v, acks=acks, label=f" acks={acks}")
    x.produce(where, 0, [b"v" * 3000], v=v, label=" too large")
    x.produce_bytes(where, 0, batch_of([b"v"], timestamp_ms=x.started_ms, breaks_crc=True), " bad crc", v=v)
    x.produce_bytes(where, 0, b"", " no batch", v=v)
    two = batch_of([b"v"], timestamp_ms=x.started_ms) * 2
    x.produce_bytes(where, 0, two, " two batches", v=v)
    x.produce(where, 0, [b"v"], v=v, codec=4, label=" zstd")
    x.produce(where, 0, [b"v"], v=v, label=" a good one")


@family("core", NAMED)
def produce_after_timeout(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)
    pid, e = timed_out(x, t, 5 if v >= 12 else 4)
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v, label=" partition without state")
    x.produce(t, 1, n=1, producer=(pid, e + 1), sequence=0, transactional_id="t", v=v, label=" the bumped epoch")
    x.describe("t")


@family("core", NAMED)
def produce_without_the_transactional_id(x: Conversation, v: int) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    stamp = {"timestamp_ms": x.started_ms, "producer_id": pid, "producer_epoch": e, "base_sequence": 0}
    batch = batch_of([b"v"], **stamp, attributes=TRANSACTIONAL_BIT)
    x.produce_bytes(t, 0, batch, " transactional, null tid", None, v=v)
    x.produce_bytes(t, 0, batch, " transactional, empty tid", "", v=v)
    x.marks(t)
    x.describe("t")


@scenario("core")
def produce_of_two_producers_in_a_request(x: Conversation) -> None:
    """kafka-notes P7: one request, one producer; nothing is added and nothing is written."""
    t = x.topic("a", 2)
    p1, p2 = x.init("t1"), x.init("t2")
    data = []
    for index, (pid, e) in enumerate((p1, p2)):
        stamp = {"timestamp_ms": x.started_ms, "producer_id": pid, "producer_epoch": e, "base_sequence": 0}
        data.append({"index": index, "records": batch_of([b"v"], **stamp, attributes=TRANSACTIONAL_BIT)})
    for v in (9, 11, 12):
        topics = [{"name": t, "partition_data": data}]
        x.ask("Produce", v, transactional_id=x.name("t1"), acks=-1, timeout_ms=5000, topic_data=topics)
    x.describe("t1")
    x.marks(t)


@scenario("core")
def produce_plain_inside_an_open_transaction(x: Conversation) -> None:
    """The same producer may not write outside of its open transaction; others may."""
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, label=" not transactional")
    x.produce(t, 0, [b"plain"])
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def produce_plain_with_a_transactional_id(x: Conversation) -> None:
    """kafka-notes P7: a transactional id does not make plain records transactional."""
    t = x.topic("a")
    pid, e = x.init("t")
    batch = batch_of([b"plain"], timestamp_ms=x.started_ms)
    x.produce_bytes(t, 0, batch, " plain batch in a request with a tid", "t")
    x.marks(t)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, label=" idempotent, id of a transactional producer")
    x.describe("t")


@family("core", (11, 12))
def first_sequence_of_a_transaction(x: Conversation, v: int) -> None:
    """KAFKA-18202, kafka-notes P10: with implicit add a transaction begins at 0; verified clients may begin anywhere."""
    t = x.topic("a", 2)
    pid, e = x.init("t")
    if v < 12:
        x.add("t", pid, e, [(t, [0, 1])])
    x.produce(t, 0, n=1, producer=(pid, e), sequence=5, transactional_id="t", v=v, label=" begins at 5")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v, label=" then 0")
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v)
    x.produce(t, 1, n=1, producer=(pid, e), sequence=2, transactional_id="t", v=v, label=" gap")
    x.marks(t)


@scenario("core")
def sequences_after_a_marker_only(x: Conversation) -> None:
    """kafka-notes P11: a marker is all the partition knows of the producer."""
    t = x.topic("a", 4)
    pid = 4_000_000_100
    for partition in range(4):
        x.markers([(pid, 5, False, [(t, [partition])], 0)])
    x.produce(t, 0, n=1, producer=(pid, 5), sequence=3, label=" same epoch, not from 0")
    x.produce(t, 1, n=1, producer=(pid, 5), sequence=0, label=" same epoch, from 0")
    x.produce(t, 2, n=1, producer=(pid, 6), sequence=1, label=" newer epoch, not from 0")
    x.produce(t, 3, n=1, producer=(pid, 4), sequence=0, label=" older epoch")


@scenario("core")
def sequences_wrap(x: Conversation) -> None:
    """kafka-notes P12: the successor of 2147483647 is 0, in a batch and between batches."""
    t = x.topic("a")
    last = 2**31 - 1
    pid, e = x.init(None)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=last - 2, label=" near the end")
    x.produce(t, 0, n=4, producer=(pid, e), sequence=last - 1, label=" across the end")
    x.produce(t, 0, n=4, producer=(pid, e), sequence=last - 1, label=" duplicate")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=3, label=" gap")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2)
    x.producers(t)


@scenario("core")
def sequences_may_not_skip_the_last_one(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init(None)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2**31 - 2)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, label=" without the last one")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2**31 - 1)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0)


@scenario("core")
def sequences_with_epochs_of_a_transaction(x: Conversation) -> None:
    """Each end by EndTxn v5 is a new epoch, which begins at 0; by v4 the sequence goes on."""
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t")
    pid, e = x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 3)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2, transactional_id="t", label=" goes on")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" from 0")
    x.end("t", pid, e, True, settle=True)


@scenario("core")
def duplicates_across_a_marker(x: Conversation) -> None:
    """The marker of an old client keeps the window, that of a new one clears it with the epoch."""
    t = x.topic("a", 2)
    pid, e = x.init("t", v=4)
    x.add("t", pid, e, [(t, [0])])
    for s in range(2):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=s, transactional_id="t", v=11, quiet=True)
    x.end("t", pid, e, True, v=4, settle=True)
    x.wait_until_stable(t, 0, 3)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=11, label=" duplicate, old client")
    p2, e2 = x.init("u")
    x.produce(t, 1, n=1, producer=(p2, e2), sequence=0, transactional_id="u", quiet=True)
    x.end("u", p2, e2, True, settle=True)
    x.wait_until_stable(t, 1, 2)
    x.produce(t, 1, n=1, producer=(p2, e2), sequence=0, transactional_id="u", label=" duplicate, new client")


@scenario("core")
def partitions_of_a_request_are_independent(x: Conversation) -> None:
    """One partition of a transactional request is refused, the others are written."""
    t = x.topic("a", 3)
    pid, e = x.init("t")
    data = []
    for index, sequence in ((0, 0), (1, 4), (2, 0), (9, 0)):
        stamp = {"timestamp_ms": x.started_ms, "producer_id": pid, "producer_epoch": e, "base_sequence": sequence}
        data.append({"index": index, "records": batch_of([b"v"], **stamp, attributes=TRANSACTIONAL_BIT)})
    topics = [{"name": t, "partition_data": data}]
    x.ask("Produce", 12, transactional_id=x.name("t"), acks=-1, timeout_ms=5000, topic_data=topics)
    for partition in range(3):
        x.marks(t, partition)
    x.end("t", pid, e, True, settle=True)


@scenario("core")
def timestamps_of_the_future(x: Conversation) -> None:
    """kafka-notes P23: more than an hour ahead is refused with the records' numbers; negative ones are taken."""
    t = x.topic("a")
    ahead = x.started_ms + 3 * 3_600_000
    x.produce(t, 0, [b"v"], ts=ahead, label=" three hours ahead")
    x.produce(t, 0, [b"v", b"w", b"u"], ts=x.started_ms, ts_step=2 * 3_600_000, label=" two of three ahead")
    x.produce(t, 0, [b"v"], ts=ahead, v=7, label=" three hours ahead")
    x.produce(t, 0, [b"v"], ts=-1, label=" no timestamp")
    x.produce(t, 0, [b"v"], ts=-5, label=" timestamp -5")
    x.marks(t)


@scenario("core")
def timestamps_of_the_log(x: Conversation) -> None:
    """kafka-notes P24: message.timestamp.type=LogAppendTime answers with the time and marks the batch."""
    t = x.topic("a", message_timestamp_type="LogAppendTime")
    for v in (3, 9, 12):
        x.pause()
        found = x.produce(t, 0, [b"v"], v=v, quiet=True)
        x.say(f"produce v{v}", error_name(found.error_code), x.time(found.log_append_time_ms))
    pid, e = x.init(None)
    x.pause()
    for label in ("", " duplicate"):
        found = x.produce(t, 0, n=1, producer=(pid, e), sequence=0, quiet=True)
        x.say(f"produce{label}", error_name(found.error_code), found.base_offset, x.time(found.log_append_time_ms))
    x.offsets(t, 0, -3, label=" max timestamp")


@scenario("core")
def message_sizes_at_the_bound(x: Conversation) -> None:
    """kafka-notes P21: max.message.bytes counts the whole batch."""
    t = x.topic("a", max_message_bytes=1000)
    overhead = len(batch_of([b"v" * 500], timestamp_ms=x.started_ms)) - 500
    for size in (999, 1000, 1001):
        batch = batch_of([b"v" * (size - overhead)], timestamp_ms=x.started_ms)
        assert len(batch) == size
        x.produce_bytes(t, 0, batch, f" {size} bytes")


@scenario("core")
def base_offsets_of_clients(x: Conversation) -> None:
    """kafka-notes P20: a produced batch begins at 0; the leader epoch in it is nobody's business."""
    t = x.topic("a")
    batch = bytearray(batch_of([b"v"], timestamp_ms=x.started_ms))
    batch[7] = 3
    x.produce_bytes(t, 0, bytes(batch), " base offset 3")
    batch[7] = 0
    batch[12:16] = b"\0\0\0\x63"
    x.produce_bytes(t, 0, bytes(batch), " leader epoch 99")
    x.marks(t)


@scenario("core")
def bytes_after_the_batch(x: Conversation) -> None:
    """kafka-notes P15: less than a header is ignored, a header of zeroes is not."""
    t = x.topic("a")
    batch = batch_of([b"v"], timestamp_ms=x.started_ms)
    x.produce_bytes(t, 0, batch + b"\0", " one byte more")
    x.produce_bytes(t, 0, batch + batch[:30], " a cut second batch")
    x.produce_bytes(t, 0, batch + b"\0" * 20, " twenty zero bytes more")
    x.produce_bytes(t, 0, batch[:-1], " cut")
    x.produce_bytes(t, 0, batch[:40], " cut in the header")
    x.marks(t)
