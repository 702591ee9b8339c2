"""WriteTxnMarkers, as a coordinator and as an operator's tool send it (KIP-98, KIP-664)."""

from __future__ import annotations

from typing import Any

from evidence.differential.connection import NoReply
from evidence.differential.conversation import READ_COMMITTED, READ_UNCOMMITTED, Conversation
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import begin

PRODUCER_ID = 4_000_001_000


@family("core", (1, 2))
def markers_topics(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)
    x.markers([(PRODUCER_ID, 0, True, [(t, [0, 1, 9])], 0)], v=v, label=" one partition is unknown")
    x.markers([(PRODUCER_ID, 1, True, [(t, [0]), (x.name("nosuch"), [0])], 0)], v=v, label=" one topic is unknown")
    x.markers([(PRODUCER_ID, 2, True, [], 0)], v=v, label=" no topic")
    x.marks(t, 0)
    x.marks(t, 1)


@family("core", (1, 2))
def markers_of_several_producers(x: Conversation, v: int) -> None:
    """The answer is grouped by producer id."""
    t = x.topic("a", 2)
    one, two = PRODUCER_ID + 1, PRODUCER_ID + 2
    x.markers([(one, 0, True, [(t, [0])], 0), (two, 0, False, [(t, [0, 1])], 0)], v=v)
    x.markers([(one, 1, True, [(t, [0])], 0), (one, 1, True, [(t, [1])], 0)], v=v, label=" one producer twice")
    x.fetch(t, 0, 0, READ_UNCOMMITTED)
    x.fetch(t, 1, 0, READ_UNCOMMITTED)


@family("core", (0, 1, 2, 3))
def markers_by_transaction_version(x: Conversation, level: int) -> None:
    """KIP-1228: from 2 on the epoch must be above the open transaction's, below it may be equal."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    x.markers([(pid, e, False, [(t, [0])], 0, level)], v=2, label=" equal epoch")
    x.marks(t)
    x.markers([(pid, e + 1, False, [(t, [0])], 0, level)], v=2, label=" next epoch")
    x.marks(t)
    x.markers([(pid, e + 1, False, [(t, [0])], 0, level)], v=2, label=" again")
    x.markers([(pid, e, False, [(t, [0])], 0, level)], v=2, label=" the old epoch")
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def markers_without_a_transaction(x: Conversation) -> None:
    """An unknown producer gets an entry, so that it stays fenced; no index entry, no change of the LSO."""
    t = x.topic("a")
    x.markers([(PRODUCER_ID + 3, 4, False, [(t, [0])], 7)])
    x.producers(t)
    x.marks(t)
    x.markers([(PRODUCER_ID + 3, 3, False, [(t, [0])], 7)], label=" older epoch")
    x.markers([(PRODUCER_ID + 3, 4, True, [(t, [0])], 6)], label=" older coordinator")
    x.markers([(PRODUCER_ID + 3, 4, True, [(t, [0])], 8)], label=" newer coordinator")
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def markers_of_offsets(x: Conversation) -> None:
    """kafka-notes M6: an operator's marker on the offsets' partition makes pending offsets count at once."""
    t = x.topic("a")
    x.find_group("g")
    pid, e = x.init("t")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 10)])
    found = x.call("DescribeTransactions", 0, transactional_ids=[x.name("t")]).transaction_states[0]
    (topic,) = found.topics
    reply = x.call(
        "WriteTxnMarkers",
        1,
        markers=[
            {
                "producer_id": pid,
                "producer_epoch": e,
                "transaction_result": True,
                "topics": [{"name": topic.topic, "partition_indexes": list(topic.partitions)}],
                "coordinator_epoch": 0,
            }
        ],
    )
    x.say("marker", [each.error_code for q in reply.markers for w in q.topics for each in w.partitions])
    x.offset_fetch("g", [(t, [0])], stable=True)
    x.end("t", pid, e, False, settle=True)
    x.offset_fetch("g", [(t, [0])], stable=True)


@scenario("core")
def markers_commit_what_is_open(x: Conversation) -> None:
    """An operator may commit, too; the coordinator goes on."""
    t = x.topic("a")
    pid, e = begin(x, t, 4)
    x.markers([(pid, e, True, [(t, [0])], 0)])
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.describe("t")
    x.end("t", pid, e, True, v=4, settle=True)
    x.wait_until_stable(t, 0, 3)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def markers_do_not_wait_for_other_transactions(x: Conversation) -> None:
    t = x.topic("a")
    one = begin(x, t, 5)
    two = x.init("u")
    x.produce(t, 0, n=1, producer=two, sequence=0, transactional_id="u")
    x.markers([(two[0], two[1], False, [(t, [0])], 0)])
    x.marks(t)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.end("t", *one, True, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("defect")
def marker_fences_the_producer_and_then_the_coordinator(x: Conversation) -> None:
    """kafka-notes M5, C14, gap 1: an operator's marker above the epoch; the transaction must still come to an end."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    x.markers([(pid, e + 5, False, [(t, [0])], 0)], label=" far above")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t")
    x.end("t", pid, e, False)
    ended_or_stuck(x)


@scenario("defect")
def coordinator_is_fenced_by_an_epoch_of_an_operator(x: Conversation) -> None:
    """kafka-notes C14, gap 1: a higher coordinator epoch is there; the transaction must come to an end all the same."""
    t = x.topic("a")
    pid, e = x.init("t")
    x.markers([(pid, e, False, [(t, [0])], 1_000_000)], label=" from a coordinator far ahead")
    begin(x, t, 5, producer=(pid, e))
    x.end("t", pid, e, True)
    ended_or_stuck(x)
    x.fetch(t, 0, 0, READ_COMMITTED)


def ended_or_stuck(x: Conversation) -> None:
    """Whether the markers arrived within a second."""
    for _ in range(50):
        found = x.call("DescribeTransactions", 0, transactional_ids=[x.name("t")]).transaction_states[0]
        if found.transaction_state.startswith("Complete"):
            break
        x.pause()
    x.describe("t")


@scenario("core")
def describe_producers_refusals(x: Conversation) -> None:
    """kafka-notes M7."""
    t = x.topic("a", 2)
    for name, indexes in ((t, [0, 1, 2]), (x.name("nosuch"), [0]), ("", [0]), ("bad name!", [0, 1])):
        x.ask(
            "DescribeProducers",
            0,
            f" {name.replace(x.prefix, '')!r}",
            topics=[{"name": name, "partition_indexes": indexes}],
        )
    x.ask("DescribeProducers", 0, " nothing", topics=[])
    x.produce(t, 0, [b"plain"])
    x.producers(t, label=" plain records leave no row")


@family("core", (4, 5))
def describe_producers_after_the_end(x: Conversation, v: int) -> None:
    """kafka-notes M7: the last sequence goes with the epoch."""
    t = x.topic("a")
    pid, e = begin(x, t, v)
    x.producers(t, label=" open")
    x.end("t", pid, e, True, v=v, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.producers(t, label=" ended")


@scenario("core")
def late_marker_of_an_old_client_ends_a_newer_transaction(x: Conversation) -> None:
    """Gap 9: with the old protocol's equal epochs a leader cannot tell one transaction's marker from the next one's."""
    t = x.topic("a")
    pid, e = begin(x, t, 4)
    x.end("t", pid, e, True, v=4, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.add("t", pid, e, [(t, [0])])
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=11)
    x.markers([(pid, e, False, [(t, [0])], 1000)], label=" late")
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def late_marker_of_a_new_client_is_refused(x: Conversation) -> None:
    """KAFKA-19446: with an epoch per transaction it can."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    pid, e = x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 2)
    begin(x, t, 5, producer=(pid, e))
    x.markers([(pid, e, True, [(t, [0])], 1000, 2)], v=2, label=" late")
    x.marks(t)
    x.end("t", pid, e, False, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)


def grouped(
    x: Conversation,
    v: int,
    label: str,
    asked: list[tuple[int, int, list[tuple[str, list[int]]]]],
    *,
    wait_s: float = 30.0,
) -> None:
    """Commit markers (producer, epoch, topics), and the answer as it is grouped."""
    first = PRODUCER_ID + 100
    markers = [
        {
            "producer_id": first + producer,
            "producer_epoch": epoch,
            "transaction_result": True,
            "coordinator_epoch": 0,
            "topics": [{"name": name, "partition_indexes": indexes} for name, indexes in topics],
        }
        for producer, epoch, topics in asked
    ]
    connection = x.connection()
    connection.send("WriteTxnMarkers", v, {"markers": markers})
    try:
        found: Any = connection.receive("WriteTxnMarkers", v, timeout_s=wait_s)[1].markers
    except NoReply:
        x.say(f"v{v} {label}", "NO-REPLY")
        return
    answers = []
    for each in sorted(found, key=lambda each: int(each.producer_id)):
        topics = []
        for topic in sorted(each.topics, key=lambda topic: str(topic.name)):
            codes = sorted((int(one.partition_index), int(one.error_code)) for one in topic.partitions)
            topics.append(f"{topic.name}:{','.join(f'{index}={code}' for index, code in codes)}")
        answers.append(f"{each.producer_id - first}[{' '.join(topics)}]")
    x.say(f"v{v} {label}", *(answers or ["nothing"]))


@family("core", (1, 2))
def markers_are_answered_by_producer(x: Conversation, v: int) -> None:
    t, nosuch = x.topic("a", 2), x.name("nosuch")
    grouped(x, v, "without topics", [(0, 0, [])])
    grouped(x, v, "without partitions", [(0, 0, [(t, [])])])
    grouped(x, v, "twice without topics", [(0, 0, []), (0, 0, [])])
    grouped(x, v, "without topics, and another producer", [(0, 0, []), (1, 0, [(t, [0])])])
    grouped(x, v, "without topics, then with one", [(0, 0, []), (0, 0, [(t, [0])])])
    grouped(x, v, "twice, two partitions", [(0, 1, [(t, [0])]), (0, 1, [(t, [1])])])
    grouped(x, v, "twice, the same partition", [(0, 1, [(t, [0])]), (0, 1, [(t, [0])])])
    grouped(x, v, "twice, the second is fenced", [(0, 3, [(t, [0])]), (0, 2, [(t, [0])])])
    grouped(x, v, "twice, the first is fenced", [(0, 1, [(t, [0])]), (0, 4, [(t, [0])])])
    grouped(x, v, "a topic twice", [(0, 5, [(t, [0]), (t, [1])])])
    grouped(x, v, "an unknown topic, then a known one", [(0, 6, [(nosuch, [0])]), (0, 6, [(t, [0])])])
    grouped(x, v, "unknown partitions twice", [(0, 6, [(t, [9, 9])])])
    grouped(x, v, "one fenced of two producers", [(0, 0, [(t, [0])]), (1, 9, [(t, [0])])])
    grouped(x, v, "nobody", [])
    x.fetch(t, 0, 0, READ_UNCOMMITTED)
    x.fetch(t, 1, 0, READ_UNCOMMITTED)


@scenario("core")
def markers_that_kafka_never_answers(x: Conversation) -> None:
    """Where it has answered one marker, it waits for ever for the next one that needs no append."""
    t, nosuch = x.topic("a", 2), x.name("nosuch")
    grouped(x, 1, "with a topic, and another producer without", [(1, 0, [(t, [0])]), (0, 0, [])], wait_s=2)
    grouped(x, 1, "with a topic, then without", [(0, 1, [(t, [0])]), (0, 1, [])], wait_s=2)
    grouped(x, 1, "a known topic, then an unknown one", [(0, 2, [(t, [0])]), (0, 2, [(nosuch, [0])])], wait_s=2)
    grouped(x, 1, "a partition twice", [(0, 3, [(t, [0, 0])])], wait_s=2)
    grouped(x, 1, "a topic and its partition twice", [(0, 4, [(t, [0]), (t, [0])])], wait_s=2)
    x.fetch(t, 0, 0, READ_UNCOMMITTED)
