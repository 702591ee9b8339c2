"""Fetch in every version, fetch sessions (KIP-227), bounds, waits, what read_committed shows (KIP-98)."""

from __future__ import annotations

from typing import Any

from evidence.differential.batches import batch_of
from evidence.differential.conversation import READ_COMMITTED, READ_UNCOMMITTED, Conversation, error_name
from evidence.differential.conversations_reading import waiting_fetch
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import begin
from oncelog.wire.record_batch import batches
from oncelog.wire.schema import ZERO_UUID

UNKNOWN_ID = bytes(15) + b"\xf0"
VERSIONS = range(4, 19)
CLOSE, NONE, FIRST = -1, -1, 0  # session epochs


def where(x: Conversation, topic: str, v: int) -> Any:
    return x.topic_id(topic) if v >= 13 else topic


@family("core", VERSIONS)
def fetch_open_and_aborted(x: Conversation, v: int) -> None:
    """The bounds and the aborted list of each isolation level."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    pid, e = x.end("t", pid, e, False, settle=True)
    x.produce(t, 0, [b"plain"])
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.wait_until_stable(t, 0, 3)
    for level in (READ_UNCOMMITTED, READ_COMMITTED):
        for offset in (0, 1, 2, 3, 4):
            x.fetch(where(x, t, v), 0, offset, level, v=v, name="a", shows=offset in (0, 2))


@family("core", VERSIONS)
def fetch_refusals(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.produce(t, 0, [b"plain"])
    nobody = UNKNOWN_ID if v >= 13 else x.name("nosuch")
    for level in (READ_UNCOMMITTED, READ_COMMITTED):
        x.fetch(nobody, 0, 0, level, v=v, name="nosuch")
        x.fetch(where(x, t, v), 5, 0, level, v=v, name="a")
        x.fetch(where(x, t, v), 0, 2, level, v=v, name="a", label=" past the end")
        x.fetch(where(x, t, v), 0, -1, level, v=v, name="a", label=" negative")
    x.fetch(where(x, t, v), 0, 0, 0, v=v, name="a", leader_epoch=7, label=" leader epoch ahead", shows=False)
    if v >= 13:
        x.fetch(ZERO_UUID, 0, 0, 0, v=v, name="no id")


def fetch_session(
    x: Conversation,
    v: int,
    session: tuple[int, int],
    partitions: list[tuple[Any, int, int]],
    label: str = "",
    forgotten: list[tuple[Any, int]] | None = None,
) -> int:
    """A fetch in a session (id, epoch); one line with what is in the answer; the id of its session."""
    key = "topic_id" if v >= 13 else "topic"
    asked: dict[Any, list[dict[str, int]]] = {}
    for topic, partition, offset in partitions:
        entry = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        asked.setdefault(topic, []).append(entry)
    reply = x.call(
        "Fetch",
        v,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[{key: topic, "partitions": entries} for topic, entries in asked.items()],
        forgotten_topics_data=[{key: topic, "partitions": [index]} for topic, index in forgotten or ()],
    )
    rows = sorted(
        f"{each.partition_index}:{error_name(each.error_code)}:hw={each.high_watermark}:{sizes(each.records)}"
        for topic in reply.responses
        for each in topic.partitions
    )
    kind = "none" if reply.session_id == 0 else "same" if reply.session_id == session[0] else "new"
    x.say(f"fetch v{v} session epoch {session[1]}{label}", error_name(reply.error_code), f"session={kind}", *rows)
    return int(reply.session_id)


def sizes(data: Any) -> str:
    return f"records={sum(batch.record_count for batch in batches(data or b''))}"


@family("core", (7, 9, 12, 13, 17))
def fetch_session_life(x: Conversation, v: int) -> None:
    t = x.topic("a", 3)
    for index in range(2):
        x.produce(t, index, [b"v"], quiet=True)
    name = where(x, t, v)
    opened = fetch_session(x, v, (0, FIRST), [(name, index, 0) for index in range(3)], " opens")
    fetch_session(x, v, (opened, 1), [(name, 0, 1), (name, 1, 1)], " has read both")
    fetch_session(x, v, (opened, 2), [], " nothing new")
    x.produce(t, 2, [b"v"], quiet=True)
    fetch_session(x, v, (opened, 3), [], " a record came")
    fetch_session(x, v, (opened, 4), [(name, 2, 1)], " has read it, forgets another", [(name, 0)])
    x.produce(t, 0, [b"v"], quiet=True)
    x.produce(t, 1, [b"v"], quiet=True)
    fetch_session(x, v, (opened, 5), [], " two came, one is forgotten")
    fetch_session(x, v, (opened, 5), [], " an epoch twice")
    fetch_session(x, v, (opened, 9), [], " an epoch too far")
    fetch_session(x, v, (opened, CLOSE), [(name, 0, 0)], " closes")
    fetch_session(x, v, (opened, 6), [], " after it was closed")


@scenario("core")
def fetch_session_refusals(x: Conversation) -> None:
    t = x.topic("a")
    x.produce(t, 0, [b"v"])
    fetch_session(x, 12, (123456789, 1), [(t, 0, 0)], " unknown id")
    fetch_session(x, 12, (0, 1), [(t, 0, 0)], " no id, epoch 1")
    fetch_session(x, 12, (0, CLOSE), [(t, 0, 0)], " no session wanted")
    opened = fetch_session(x, 12, (0, FIRST), [(t, 0, 0)], " opens")
    fetch_session(x, 12, (opened, FIRST), [(t, 0, 0)], " opens another, closes this one")
    fetch_session(x, 12, (opened, 1), [], " the closed one")
    fetch_session(x, 12, (0, FIRST), [], " opens with nothing")


@scenario("core")
def fetch_session_with_errors(x: Conversation) -> None:
    """An error is told every time."""
    t = x.topic("a")
    opened = fetch_session(x, 12, (0, FIRST), [(t, 0, 0), (t, 7, 0), (x.name("nosuch"), 0, 0)], " two unknown ones")
    for epoch in (1, 2):
        fetch_session(x, 12, (opened, epoch), [])
    fetch_session(x, 12, (opened, 3), [(t, 0, 99)], " past the end")
    fetch_session(x, 12, (opened, 4), [], " still")


@scenario("core")
def fetch_session_names_and_ids_do_not_mix(x: Conversation) -> None:
    t = x.topic("a")
    opened = fetch_session(x, 12, (0, FIRST), [(t, 0, 0)], " by name")
    fetch_session(x, 13, (opened, 1), [(x.topic_id(t), 0, 0)], " goes on by id")
    opened = fetch_session(x, 13, (0, FIRST), [(x.topic_id(t), 0, 0)], " by id")
    fetch_session(x, 12, (opened, 1), [(t, 0, 0)], " goes on by name")


@scenario("core")
def fetch_session_sees_the_bounds_move(x: Conversation) -> None:
    """A marker moves high watermark and LSO: an incremental answer names the partition."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    opened = fetch_session(x, 12, (0, FIRST), [(t, 0, 1)], " behind the record")
    fetch_session(x, 12, (opened, 1), [], " nothing new")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 2)
    fetch_session(x, 12, (opened, 2), [], " the marker")


def bounded(x: Conversation, topics: list[tuple[str, list[tuple[int, int]]]], max_bytes: int, label: str) -> None:
    asked = [
        {
            "topic": topic,
            "partitions": [
                {"partition": index, "fetch_offset": 0, "partition_max_bytes": size} for index, size in partitions
            ],
        }
        for topic, partitions in topics
    ]
    reply = x.call("Fetch", 12, max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, isolation_level=0, topics=asked)
    rows = [
        f"{each.partition_index}:{error_name(each.error_code)}:{len(each.records or b'')}"
        for topic in reply.responses
        for each in topic.partitions
    ]
    x.say(f"fetch at most {max_bytes} bytes{label}", *rows)


@scenario("core")
def fetch_bounds(x: Conversation) -> None:
    """kafka-notes F5: one whole batch for the first partition with data, however small the bound; then up to the bounds."""
    t = x.topic("a", 2)
    for index in range(2):
        for _ in range(3):
            x.produce_bytes(t, index, batch_of([b"v" * 100], timestamp_ms=x.started_ms), "", quiet=True)
    size = len(batch_of([b"v" * 100], timestamp_ms=x.started_ms))
    x.say("a batch has bytes", size)
    for max_bytes in (0, 1, size, 2 * size, 100_000):
        bounded(x, [(t, [(0, 100_000), (1, 100_000)])], max_bytes, "")
    for each in (0, 1, size, size + 1, 2 * size, 2 * size + 5):
        bounded(x, [(t, [(0, each), (1, each)])], 100_000, f", of each partition {each}")


@scenario("core")
def fetch_waits_for_min_bytes(x: Conversation) -> None:
    """Too little data is given when the wait is over; enough is given at once."""
    t = x.topic("a")
    x.produce(t, 0, [b"v"])
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    for min_bytes in (1, 60, 1000):
        topics = [{"topic": t, "partitions": partitions}]
        reply = x.call("Fetch", 12, max_wait_ms=150, min_bytes=min_bytes, max_bytes=1 << 20, topics=topics)
        found = reply.responses[0].partitions[0]
        x.say(f"min bytes {min_bytes}", error_name(found.error_code), sizes(found.records))
    reply = x.call("Fetch", 12, max_wait_ms=5000, min_bytes=10**6, max_bytes=1 << 20, topics=[])
    x.say("no partitions: at once", error_name(reply.error_code))


@scenario("core")
def fetch_errors_do_not_wait(x: Conversation) -> None:
    t = x.topic("a")
    asked = [{"partition": each, "fetch_offset": 0, "partition_max_bytes": 1000} for each in (0, 9)]
    topics = [{"topic": t, "partitions": asked}]
    reply = x.call("Fetch", 12, max_wait_ms=10_000, min_bytes=1, max_bytes=1000, topics=topics)
    x.say("one of two unknown", *(error_name(each.error_code) for each in reply.responses[0].partitions))


@scenario("core")
def fetch_wakes_for_a_reader_of_committed_only_when_it_may_see(x: Conversation) -> None:
    """Records of an open transaction do not wake who may not see them."""
    t = x.topic("a")
    producer = x.init("t")

    def write_and_end() -> None:
        begin(x, t, 5, producer=producer)
        x.pause()
        x.end("t", *producer, True, settle=True)

    found, early = waiting_fetch(x, t, READ_COMMITTED, write_and_end)
    x.say("waiting fetch", error_name(found.error_code), f"early={early}", f"lso={found.last_stable_offset}")


@scenario("core")
def aborted_list_is_in_marker_order(x: Conversation) -> None:
    """kafka-notes F2: and it may hold more than was asked for."""
    t = x.topic("a")
    ids = [x.init(name) for name in ("t", "u", "w")]
    for name, producer in zip(("t", "u", "w"), ids, strict=True):
        x.produce(t, 0, n=1, producer=producer, sequence=0, transactional_id=name)
    for name, producer in (("w", ids[2]), ("t", ids[0]), ("u", ids[1])):
        x.end(name, *producer, False, settle=True)
    x.wait_until_stable(t, 0, 6)
    for offset in range(7):
        x.fetch(t, 0, offset, READ_COMMITTED, shows=False)


@scenario("core")
def aborted_transactions_of_one_producer(x: Conversation) -> None:
    """The same producer aborts, commits and aborts; each transaction is judged by its own marker."""
    t = x.topic("a")
    pid, e = x.init("t")
    for commit in (False, True, False, False, True):
        x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t", quiet=True)
        pid, e = x.end("t", pid, e, commit, quiet=True, settle=True)
    x.wait_until_stable(t, 0, 15)
    for offset in (0, 2, 3, 6, 9, 12, 14, 15):
        x.fetch(t, 0, offset, READ_COMMITTED, shows=offset == 0)


@scenario("core")
def deleted_records_and_the_aborted_list(x: Conversation) -> None:
    """kafka-notes F3: the offset that is asked for decides, not the log's start."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    pid, e = x.end("t", pid, e, False, settle=True)
    begin(x, t, 5, producer=(pid, e))
    x.end("t", pid, e, False, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.delete_records(t, 1)
    for offset in (0, 1, 2, 3, 4):
        x.fetch(t, 0, offset, READ_COMMITTED, shows=False)


@family("core", (13, 15, 17))
def fetch_session_with_unknown_ids(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.produce(t, 0, [b"v"])
    partitions = [(x.topic_id(t), 0, 0), (UNKNOWN_ID, 0, 0), (ZERO_UUID, 0, 0)]
    opened = fetch_session(x, v, (0, FIRST), partitions, " one known, two not")
    for epoch in (1, 2):
        fetch_session(x, v, (opened, epoch), [])
    fetch_session(x, v, (opened, 3), [], " forgets an unknown one", [(UNKNOWN_ID, 0)])
    fetch_session(x, v, (opened, 4), [])


@scenario("core")
def fetch_session_survives_its_topic(x: Conversation) -> None:
    """A topic that is deleted and made again under the same name is another topic to a session of ids."""
    t = x.topic("a")
    x.produce(t, 0, [b"v"])
    by_id = fetch_session(x, 13, (0, FIRST), [(x.topic_id(t), 0, 0)], " by id")
    by_name = fetch_session(x, 12, (0, FIRST), [(t, 0, 0)], " by name")
    x.call("DeleteTopics", 5, topic_names=[t], timeout_ms=5000)

    def gone() -> object:
        found = x.call("Metadata", 9, topics=[{"name": t}], allow_auto_topic_creation=False).topics[0]
        return found.error_code or None

    x.until(gone)
    fetch_session(x, 13, (by_id, 1), [], " it is gone")
    fetch_session(x, 12, (by_name, 1), [], " it is gone")
    x.topic("a")
    x.produce(t, 0, [b"w"])
    fetch_session(x, 13, (by_id, 2), [], " another one is there")
    fetch_session(x, 12, (by_name, 2), [], " another one is there")
