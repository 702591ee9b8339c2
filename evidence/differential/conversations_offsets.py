"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords in every version."""

from __future__ import annotations

from evidence.differential.conversation import READ_COMMITTED, READ_UNCOMMITTED, Conversation
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import begin

SPECIAL = (-1, -2, -3, -4, -5, -6, -7)


@family("core", range(1, 12))
def list_offsets(x: Conversation, v: int) -> None:
    """The special timestamps, each known from its version on, and times; the last record is in an open transaction."""
    t = x.topic("a")
    x.offsets(t, 0, -1, v=v, label=" empty")
    x.produce(t, 0, [b"a"], ts=x.started_ms)
    x.produce(t, 0, [b"b"], ts=x.started_ms + 1000)
    pid, e = x.init("t")
    options = {"producer": (pid, e), "sequence": 0, "transactional_id": "t", "ts": x.started_ms + 2000}
    x.produce(t, 0, [b"c"], **options)
    for level in (READ_UNCOMMITTED, READ_COMMITTED) if v >= 2 else (READ_UNCOMMITTED,):
        for special in SPECIAL:
            x.offsets(t, 0, special, level, v=v, label=f" special {special}")
        for distance in (0, 1, 1000, 2000, 2001):
            x.offsets(t, 0, x.started_ms + distance, level, v=v)


@family("core", range(1, 12))
def list_offsets_refusals(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.offsets(x.name("nosuch"), 0, -1, v=v)
    x.offsets(t, 5, -1, v=v)
    x.offsets("bad name!", 0, -1, v=v)
    if v >= 4:
        for leader_epoch in (-1, 0, 9):
            x.offsets(t, 0, -1, v=v, leader_epoch=leader_epoch, label=f" leader epoch {leader_epoch}")
    asked = [{"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]
    x.ask("ListOffsets", v, " a partition twice", replica_id=-1, topics=[{"name": t, "partitions": asked}])


@scenario("core")
def list_offsets_of_replicas(x: Conversation) -> None:
    """The debugging consumer (-2) and would-be followers."""
    t = x.topic("a")
    x.produce(t, 0, [b"v"])
    for replica_id in (-1, -2, 0, 1, 99):
        topics = [{"name": t, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        x.ask("ListOffsets", 7, f" replica {replica_id}", replica_id=replica_id, topics=topics)


@scenario("core")
def list_offsets_after_an_abort(x: Conversation) -> None:
    """Times may name aborted records and markers: only the client filters."""
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, [b"a"], producer=(pid, e), sequence=0, transactional_id="t", ts=x.started_ms)
    x.end("t", pid, e, False, settle=True)
    x.wait_until_stable(t, 0, 2)
    for timestamp in (-1, -2, x.started_ms, x.started_ms + 1, -3):
        x.offsets(t, 0, timestamp, READ_COMMITTED)


@family("core", (2, 3, 4))
def offset_for_leader_epoch(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.produce(t, 0, [b"a", b"b"])
    for current, asked in ((-1, 0), (-1, 1), (-1, -1), (0, 0), (5, 0), (-1, 99), (0, 99)):
        where = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": asked}]
        label = f" current {current} asked {asked}"
        x.ask("OffsetForLeaderEpoch", v, label, topics=[{"topic": t, "partitions": where}])
    for name, partition in ((x.name("nosuch"), 0), (t, 9)):
        where = [{"partition": partition, "current_leader_epoch": -1, "leader_epoch": 0}]
        x.ask("OffsetForLeaderEpoch", v, " unknown", topics=[{"topic": name, "partitions": where}])


@family("core", range(3))
def delete_records(x: Conversation, v: int) -> None:
    t = x.topic("a")
    for index in range(4):
        x.produce(t, 0, [b"%d" % index], quiet=True)
    for before in (2, 1, -2, 5, 3, -1, 4):
        x.delete_records(t, before, v=v)
    x.fetch(t, 0, 3, READ_UNCOMMITTED, label=" deleted")
    x.produce(t, 0, [b"after"])
    x.offsets(t, 0, -2)
    for name, index in ((x.name("nosuch"), 0), (t, 9), ("__consumer_offsets", 0), ("bad name!", 0)):
        where = [{"partition_index": index, "offset": 0}]
        x.ask("DeleteRecords", v, topics=[{"name": name, "partitions": where}], timeout_ms=5000)


@scenario("core")
def deleted_records_keep_producers(x: Conversation) -> None:
    """kafka-notes F7, KAFKA-7190: a duplicate of a deleted batch is still known."""
    t = x.topic("a")
    pid, e = x.init(None)
    for s in range(3):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=s, quiet=True)
    x.delete_records(t, 3)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, label=" duplicate of a deleted one")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=3)
    x.producers(t)


@scenario("core")
def deleted_records_before_an_open_transaction(x: Conversation) -> None:
    t = x.topic("a")
    x.produce(t, 0, [b"plain"])
    pid, e = begin(x, t, 5)
    x.delete_records(t, 1)
    x.fetch(t, 0, 1, READ_COMMITTED)
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 3, start=1)
    x.fetch(t, 0, 1, READ_COMMITTED)


@scenario("core")
def deleted_records_of_a_decided_transaction(x: Conversation) -> None:
    """The marker alone is left."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    x.end("t", pid, e, False, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.delete_records(t, 1)
    x.fetch(t, 0, 1, READ_COMMITTED)
    x.fetch(t, 0, 1, READ_UNCOMMITTED)
    x.delete_records(t, -1)
    x.fetch(t, 0, 2, READ_COMMITTED)
    x.producers(t)
