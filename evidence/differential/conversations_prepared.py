"""While the markers of a decided transaction are on their way: what everybody else is told (kafka-notes C12, C13)."""

from __future__ import annotations

from evidence.differential.conversation import READ_COMMITTED, Conversation, error_name
from evidence.differential.conversations_operators import list_transactions
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import FOREIGN, stalled

OLD, NEW = "old_protocol", "new_protocol"
PROTOCOLS = (OLD, NEW)


def end_version(protocol: str) -> int:
    return 5 if protocol == NEW else 4


@family("stalled", PROTOCOLS)
def prepared_init(x: Conversation, protocol: str) -> None:
    t = x.topic("a")
    pid, e = stalled(x, t, end_version(protocol), commit=True)
    for v in range(6):
        x.init("t", v=v, wait=False, label=" a newer instance")
    for v in (3, 4, 5):
        for epoch in (e, e + 1, e + 5):
            x.init("t", pid, epoch, v=v, wait=False)
        x.init("t", pid + FOREIGN, e, v=v, wait=False, label=" foreign pid")
    x.describe("t")


@family("stalled", PROTOCOLS)
def prepared_add_partitions(x: Conversation, protocol: str) -> None:
    t = x.topic("a", 2)
    pid, e = stalled(x, t, end_version(protocol), commit=False)
    for v in range(4):
        for epoch in (e, e + 1):
            x.add("t", pid, epoch, [(t, [0, 1])], v=v)
    for v in (4, 5):
        for verify_only in (False, True):
            for epoch in (e, e + 1):
                x.add4([("t", pid, epoch, verify_only, [(t, [0, 1])])], v=v)
    x.add("t", pid + FOREIGN, e, [(t, [0])], label=" foreign pid")
    x.add4([("t", pid + FOREIGN, e, True, [(t, [0])])], label=" foreign pid")
    x.describe("t")


@family("stalled", PROTOCOLS)
def prepared_add_offsets(x: Conversation, protocol: str) -> None:
    t = x.topic("a")
    x.find_group("g")
    pid, e = stalled(x, t, end_version(protocol), commit=False)
    for v in range(5):
        for epoch in (e, e + 1):
            x.add_offsets("t", pid, epoch, "g", v=v)
    for v in range(6):
        for epoch in (e, e + 1):
            x.txn_offsets("t", "g", pid, epoch, [(t, 0, 5)], v=v)


@family("stalled", PROTOCOLS)
def prepared_produce(x: Conversation, protocol: str) -> None:
    """Partition 1 has no state of the producer, so its coordinator is asked."""
    t = x.topic("a", 2)
    pid, e = stalled(x, t, end_version(protocol), commit=True)
    for v in (3, 7, 10, 11, 12):
        for epoch in (e, e + 1):
            x.produce(t, 1, n=1, producer=(pid, epoch), sequence=0, transactional_id="t", v=v, label=f" epoch {epoch}")
    x.marks(t, 1)


@family("stalled", PROTOCOLS)
def prepared_described(x: Conversation, protocol: str) -> None:
    t = x.topic("a", 2)
    pid, _ = stalled(x, t, end_version(protocol), commit=protocol == NEW)
    x.describe("t")
    for v in range(3):
        list_transactions(x, " by pid", v=v, pids=[pid])
    for states in (["PrepareCommit"], ["PrepareAbort"], ["Ongoing"]):
        list_transactions(x, f" {states[0]}", pids=[pid], states=states)
    x.producers(t)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("stalled")
def prepared_has_no_timeout(x: Conversation) -> None:
    """What is decided is not decided again when its time is over."""
    t = x.topic("a")
    stalled(x, t, 5, commit=True, timeout=100)
    u = x.topic("b")
    other = x.init("u", timeout=200)
    x.produce(u, 0, n=1, producer=other, sequence=0, transactional_id="u")
    x.settle("u")
    x.describe("t")


@scenario("stalled")
def prepared_topic_is_deleted(x: Conversation) -> None:
    t = x.topic("a")
    stalled(x, t, 5, commit=True)
    reply = x.call("DeleteTopics", 5, topic_names=[t], timeout_ms=5000)
    x.say("delete", error_name(reply.responses[0].error_code))
    x.describe("t")


@scenario("core")
def deleted_topic_needs_no_marker(x: Conversation) -> None:
    """kafka-notes P27: a topic that goes away inside a transaction is dropped from it; the others are ended."""
    t, u = x.topic("a"), x.topic("b")
    pid, e = x.init("t")
    for topic in (t, u):
        x.produce(topic, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    reply = x.call("DeleteTopics", 5, topic_names=[t], timeout_ms=5000)
    x.say("delete", error_name(reply.responses[0].error_code))

    def gone() -> object:
        found = x.call("Metadata", 9, topics=[{"name": t}], allow_auto_topic_creation=False).topics[0]
        return found.error_code or None

    x.until(gone)
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(u, 0, 2)
    x.fetch(u, 0, 0, READ_COMMITTED)


@scenario("core")
def recreated_topic_inside_a_transaction(x: Conversation) -> None:
    """kafka-notes P27: the new topic knows nothing of the producer, the coordinator knows the name."""
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t")
    x.call("DeleteTopics", 5, topic_names=[t], timeout_ms=5000)

    def gone() -> object:
        found = x.call("Metadata", 9, topics=[{"name": t}], allow_auto_topic_creation=False).topics[0]
        return found.error_code or None

    x.until(gone)
    x.topic("a")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2, transactional_id="t", label=" goes on")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" from 0")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.fetch(t, 0, 0, READ_COMMITTED)
