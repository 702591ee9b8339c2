"""Who may do what (KIP-11, KIP-98): each request of a transaction without the one right that it needs."""

from __future__ import annotations

from typing import Any

from evidence.differential.conversation import READ_COMMITTED, Conversation
from evidence.differential.conversations_operators import list_transactions
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import begin

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
IDEMPOTENT_WRITE, TWO_PHASE_COMMIT = 12, 15
DENY, ALLOW = 2, 3
LITERAL, PREFIXED = 3, 4
NAMED = {READ: "READ", WRITE: "WRITE", DELETE: "DELETE", DESCRIBE: "DESCRIBE", TWO_PHASE_COMMIT: "TWO_PHASE_COMMIT"}
NAMED |= {ALTER: "ALTER", CLUSTER_ACTION: "CLUSTER_ACTION", IDEMPOTENT_WRITE: "IDEMPOTENT_WRITE", CREATE: "CREATE"}
Row = dict[str, Any]


def rule(kind: int, name: str, operation: int, permission: int, pattern: int = LITERAL) -> Row:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": "User:ANONYMOUS",
        "host": "*",
        "operation": operation,
        "permission_type": permission,
    }


def deny(x: Conversation, kind: int, name: str, *operations: int) -> None:
    """Everything but these is allowed from now on; waits until it is in force."""
    rows = [rule(kind, name, ALL, ALLOW), *(rule(kind, name, each, DENY) for each in operations)]
    reply = x.call("CreateAcls", 3, creations=rows)
    assert not any(each.error_code for each in reply.results), reply
    found = {"resource_type_filter": kind, "resource_name_filter": name, "pattern_type_filter": LITERAL}
    anybody = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}

    def in_force() -> Any:
        listed = x.call("DescribeAcls", 3, **found, **anybody).resources
        return True if sum(len(each.acls) for each in listed) == len(rows) else None

    x.until(in_force)
    x.say(f"# without {' '.join(NAMED[each] for each in operations)}")


@family("acl", range(6))
def authorize_init_producer_id(x: Conversation, v: int) -> None:
    x.init("t", v=v)
    deny(x, TRANSACTIONAL_ID, x.name("t"), WRITE)
    x.init("t", v=v)


@scenario("acl")
def authorize_idempotent_producers(x: Conversation) -> None:
    deny(x, CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE)
    x.init(None)
    remove(x, CLUSTER, "kafka-cluster")


@family("acl", range(4))
def authorize_add_partitions(x: Conversation, v: int) -> None:
    t, u = x.topic("a"), x.topic("b")
    pid, e = x.init("t")
    deny(x, TOPIC, u, WRITE)
    x.add("t", pid, e, [(t, [0]), (u, [0])], v=v)
    x.describe("t")
    deny(x, TRANSACTIONAL_ID, x.name("t"), WRITE)
    x.add("t", pid, e, [(t, [0]), (u, [0])], v=v)


@family("acl", range(5))
def authorize_add_offsets(x: Conversation, v: int) -> None:
    x.find_group("g")
    pid, e = x.init("t")
    deny(x, GROUP, x.name("g"), READ)
    x.add_offsets("t", pid, e, "g", v=v)
    deny(x, TRANSACTIONAL_ID, x.name("t"), WRITE)
    x.add_offsets("t", pid, e, "g", v=v)


@family("acl", range(6))
def authorize_end_txn(x: Conversation, v: int) -> None:
    t = x.topic("a")
    pid, e = begin(x, t, v)
    deny(x, TRANSACTIONAL_ID, x.name("t"), WRITE)
    x.end("t", pid, e, True, v=v)


@family("acl", range(6))
def authorize_txn_offsets(x: Conversation, v: int) -> None:
    t, u = x.topic("a"), x.topic("b")
    x.find_group("g")
    pid, e = x.init("t")
    if v < 5:
        x.add_offsets("t", pid, e, "g")
    deny(x, TOPIC, u, READ)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1), (u, 0, 1)], v=v)
    deny(x, GROUP, x.name("g"), READ)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1), (u, 0, 1)], v=v)
    deny(x, TRANSACTIONAL_ID, x.name("t"), WRITE)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1), (u, 0, 1)], v=v)


@family("acl", (3, 9, 11, 12))
def authorize_produce(x: Conversation, v: int) -> None:
    t, u = x.topic("a"), x.topic("b")
    pid, e = x.init("t")
    x.add("t", pid, e, [(t, [0]), (u, [0])])
    deny(x, TOPIC, u, WRITE)
    x.produce(u, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v)
    x.produce(u, 0, [b"plain"], v=v)
    x.produce(x.name("nosuch"), 0, [b"plain"], v=v)
    deny(x, TRANSACTIONAL_ID, x.name("t"), WRITE)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v)


@family("acl", (4, 11, 12, 13))
def authorize_fetch(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.produce(t, 0, [b"v"])
    where = x.topic_id(t) if v >= 13 else t
    deny(x, TOPIC, t, READ)
    x.fetch(where, 0, 0, READ_COMMITTED, v=v, name="a")
    x.offsets(t, 0, -1)
    x.ask(
        "DeleteRecords", 2, topics=[{"name": t, "partitions": [{"partition_index": 0, "offset": 0}]}], timeout_ms=5000
    )


@scenario("acl")
def authorize_deletions(x: Conversation) -> None:
    t = x.topic("a")
    deny(x, TOPIC, t, DELETE, ALTER)
    partitions = [{"partition_index": 0, "offset": 0}]
    x.ask("DeleteRecords", 2, topics=[{"name": t, "partitions": partitions}], timeout_ms=5000)
    x.ask("DeleteTopics", 5, topic_names=[t], timeout_ms=5000)
    topics = [{"name": t, "count": 2, "assignments": None}]
    x.ask("CreatePartitions", 2, topics=topics, timeout_ms=5000)


@scenario("acl")
def authorize_describing(x: Conversation) -> None:
    """Names that one may not see are unknown, or left out."""
    t, u = x.topic("a"), x.topic("b")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(u, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    deny(x, TOPIC, u, DESCRIBE)
    x.describe("t")
    x.ask("Metadata", 12, topics=[{"name": t}, {"name": u}], allow_auto_topic_creation=False)
    x.offsets(u, 0, -1)
    deny(x, TOPIC, t, READ)
    asked = [{"name": each, "partition_indexes": [0]} for each in (t, u)]
    x.ask("DescribeProducers", 0, topics=asked)
    deny(x, TRANSACTIONAL_ID, x.name("t"), DESCRIBE)
    x.describe("t")
    list_transactions(x, "", pids=[pid])
    x.ask("FindCoordinator", 4, key_type=1, coordinator_keys=[x.name("t"), x.name("other")])
    x.ask("FindCoordinator", 3, key_type=1, key=x.name("t"))


@scenario("acl")
def authorize_groups(x: Conversation) -> None:
    t = x.topic("a")
    x.find_group("g")
    m, g = x.only_member("g")
    deny(x, GROUP, x.name("g"), READ)
    x.commit_offsets("g", [(t, 0, 1)], generation=g, member=m)
    x.heartbeat("g", g, m)
    x.join("g", member=m)
    x.sync("g", g, m)
    x.offset_fetch("g", [(t, [0])])
    x.leave("g", [(m, None)])
    deny(x, GROUP, x.name("h"), DESCRIBE, DELETE)
    x.offset_fetch("h", [(t, [0])])
    x.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[x.name("h")])
    x.ask("DescribeGroups", 5, groups=[x.name("h")])
    x.ask("DeleteGroups", 2, groups_names=[x.name("h")])
    topics = [{"name": t, "partitions": [{"partition_index": 0}]}]
    x.ask("OffsetDelete", 0, group_id=x.name("h"), topics=topics)


@scenario("acl")
def authorize_offsets_of_topics(x: Conversation) -> None:
    t, u = x.topic("a"), x.topic("b")
    x.find_group("g")
    x.commit_offsets("g", [(t, 0, 1), (u, 0, 1)])
    deny(x, TOPIC, u, READ)
    x.commit_offsets("g", [(t, 0, 2), (u, 0, 2)])
    deny(x, TOPIC, t, DESCRIBE)
    x.offset_fetch("g", [(t, [0]), (u, [0])])
    x.offset_fetch("g", None)


@scenario("acl")
def authorize_prefixes(x: Conversation) -> None:
    """A rule for a prefix holds for each name that begins with it."""
    rows = [
        rule(TRANSACTIONAL_ID, x.name("p-"), ALL, ALLOW, PREFIXED),
        rule(TRANSACTIONAL_ID, x.name("p-"), WRITE, DENY, PREFIXED),
    ]
    reply = x.call("CreateAcls", 3, creations=rows)
    x.say("create", [each.error_code for each in reply.results])
    x.pause(0.3)
    for name in ("p-1", "q-1"):
        x.init(name)


@scenario("acl")
def rules_are_described_and_deleted(x: Conversation) -> None:
    t = x.name("a")
    deny(x, TOPIC, t, WRITE)
    anybody = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    for v in (1, 2, 3):
        for pattern in (LITERAL, 1, 2):
            found = {"resource_type_filter": TOPIC, "resource_name_filter": t, "pattern_type_filter": pattern}
            x.ask("DescribeAcls", v, f" pattern {pattern}", **found, **anybody)
    x.ask("CreateAcls", 3, " unknown operation", creations=[rule(TOPIC, t, 99, ALLOW)])
    x.ask("CreateAcls", 3, " any operation", creations=[rule(TOPIC, t, 1, ALLOW)])
    x.ask("CreateAcls", 3, " of the cluster's name", creations=[rule(CLUSTER, "other", ALTER, ALLOW)])
    x.ask("CreateAcls", 3, " an operation topics do not have", creations=[rule(TOPIC, t, TWO_PHASE_COMMIT, ALLOW)])
    remove(x, TOPIC, t, says=True)
    remove(x, TOPIC, t, says=True)


def remove(x: Conversation, kind: int, name: str, *, says: bool = False) -> None:
    everything = {"resource_type_filter": kind, "resource_name_filter": name, "pattern_type_filter": LITERAL}
    everything |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    if says:
        x.ask("DeleteAcls", 3, filters=[everything])
    else:
        x.call("DeleteAcls", 3, filters=[everything])
        x.until(lambda: True if not x.call("DescribeAcls", 3, **everything).resources else None)


@scenario("acl_cluster")
def authorize_markers_and_batches_between_brokers(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    deny(x, CLUSTER, "kafka-cluster", CLUSTER_ACTION, ALTER)
    x.markers([(pid, e, False, [(t, [0])], 0)])
    x.add4([("t", pid, e, True, [(t, [0])])])
    x.add4([("t", pid, e, False, [(t, [0])])], v=5)
