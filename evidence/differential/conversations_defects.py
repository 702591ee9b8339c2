"""Where Apache Kafka 4.3 loses, hangs or leaves a door open: its answer is recorded, ours is in the list of differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evidence.differential.batches import TRANSACTIONAL_BIT, batch_of
from evidence.differential.conversation import READ_COMMITTED, Conversation, error_name, produce_request
from evidence.differential.scenario import scenario


@scenario("defect")
def old_instance_resumes_between_the_requests_of_a_newer_one(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.init("t", wait=False, label=" a newer instance")
    x.init("t", pid, e, label=" the old one resumes")


@scenario("defect")
def epoch_ahead_aborts_an_open_transaction(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.init("t", pid, e + 7, wait=False, label=" an epoch nobody was given")


@scenario("defect")
def implicit_add_then_old_end_txn_loses_the_next_transaction(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, [b"first"], producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, True, v=4, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.produce(t, 0, [b"second"], producer=(pid, e), sequence=0, transactional_id="t", label=" the next transaction")
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("defect")
def duplicate_hinders_what_follows(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t", v=4)
    first: dict[str, Any] = {"producer": (pid, e), "transactional_id": "t", "v": 11}
    x.add("t", pid, e, [(t, [0])])
    x.produce(t, 0, n=1, sequence=0, **first)
    x.end("t", pid, e, True, v=4, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.add("t", pid, e, [(t, [0])])
    x.produce(t, 0, n=1, sequence=0, **first, label=" a late duplicate")
    x.produce(t, 0, n=1, sequence=1, **first, label=" in order")
    x.end("t", pid, e, False, v=4, settle=True)


@scenario("defect")
def transactional_batch_of_nobody(x: Conversation) -> None:
    t = x.topic("a")
    batch = batch_of([b"v"], timestamp_ms=x.started_ms, attributes=TRANSACTIONAL_BIT)
    x.produce_bytes(t, 0, batch, " transactional, no producer id", "t")
    x.marks(t)


@scenario("defect")
def another_transactional_id_writes_to_an_open_transaction(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="nosuch", label=" by another id")
    x.marks(t)
    x.end("t", pid, e, False, settle=True)


@scenario("defect")
def producer_without_an_epoch(x: Conversation) -> None:
    t = x.topic("a")
    pid, _ = x.init(None)
    x.produce(t, 0, n=1, producer=(pid, -1), sequence=0)
    x.marks(t)


@scenario("defect")
def partition_twice_in_a_request(x: Conversation) -> None:
    t = x.topic("a")
    request = produce_request(t, 0, batch_of([b"one"], timestamp_ms=x.started_ms))
    second = {"index": 0, "records": batch_of([b"two"], timestamp_ms=x.started_ms)}
    request["topic_data"][0]["partition_data"].append(second)
    found = x.call("Produce", 12, **request).responses[0].partition_responses
    x.say("produce twice", [(error_name(each.error_code), each.base_offset) for each in found])
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("defect")
def null_records_are_never_answered(x: Conversation) -> None:
    t = x.topic("a")
    for v in (7, 12):
        request = produce_request(t, 0, b"", v=v)
        request["topic_data"][0]["partition_data"][0]["records"] = None
        frame = x.connection().frame("Produce", v, request)
        x.probe(f"null records v{v}", frame, ("Produce", v), partition_error, timeout_s=20)


def partition_error(reply: Any) -> str:
    return error_name(reply.responses[0].partition_responses[0].error_code)


@scenario("defect")
def records_inside_a_batch_are_not_checked(x: Conversation) -> None:
    t = x.topic("a", 6)
    section = bytes(batch_of([b"a", b"b"], timestamp_ms=x.started_ms))[61:]
    middle = len(section) // 2
    lies = (
        ("record attributes", section[:1] + b"\x08" + section[2:]),
        ("offset deltas 0, 0", section[: middle + 3] + b"\0" + section[middle + 4 :]),
    )
    for partition, (label, changed) in enumerate(lies):
        fields = {"record_count": 2, "last_offset_delta": 1}
        batch = batch_of([b"a", b"b"], timestamp_ms=x.started_ms, section=changed, **fields)
        x.produce_bytes(t, partition, batch, f" {label}")
    for partition, bit in enumerate((0x40, 0x80, 0x4000, 0x08), start=2):
        batch = batch_of([b"a"], timestamp_ms=x.started_ms, attributes=bit)
        x.produce_bytes(t, partition, batch, f" attribute bit {bit:#x}")


@scenario("defect")
def payloads_that_cannot_be_decompressed(x: Conversation) -> None:
    t = x.topic("a")
    for codec in (1, 2, 3, 4, 5, 7):
        batch = batch_of([b"a"], timestamp_ms=x.started_ms, attributes=codec)
        x.produce_bytes(t, 0, batch, f" garbage as codec {codec}")
    x.marks(t)


@scenario("defect")
def markers_with_impossible_numbers(x: Conversation) -> None:
    t = x.topic("a")
    x.markers([(-1, 0, False, [(t, [0])], 0)], label=" no producer id")
    x.markers([(4_000_000_002, -1, False, [(t, [0])], 0)], label=" no epoch")
    x.markers([(4_000_000_002, 0, False, [(t, [0])], 0, -1)], v=2, label=" no version")
    x.marks(t)


@scenario("defect")
def last_stable_offset_below_the_log_start(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, [b"plain"])
    x.produce(t, 0, n=3, producer=(pid, e), sequence=0, transactional_id="t")
    x.delete_records(t, 2)
    x.fetch(t, 0, 2, READ_COMMITTED)
    x.end("t", pid, e, False, settle=True)


@scenario("defect")
def unknown_isolation_levels(x: Conversation) -> None:
    t = x.topic("a")
    where = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    for level in (2, -1):
        topics = [{"topic": t, "partitions": where}]
        reply = x.call("Fetch", 12, max_wait_ms=0, min_bytes=0, max_bytes=1000, isolation_level=level, topics=topics)
        x.say(f"fetch with isolation level {level}", error_name(reply.error_code))


@scenario("restart")
def restart_fences_the_retry_of_an_epoch_bump(x: Conversation) -> Iterator[tuple[str, int]]:
    t = x.topic("a")
    pid, e = x.init("t")
    x.init("t", pid, e)
    x.init("t", pid, e, label=" retry")
    yield t, 1
    x.init("t", pid, e, label=" retry after the restart")
