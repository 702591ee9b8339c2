"""Share groups (KIP-932): membership, sessions, acquiring and acknowledging, transactions, locks, offsets."""

from __future__ import annotations

from evidence.differential.consumer_group_verbs import beat, delete_group, describe_group, list_group
from evidence.differential.conversation import Conversation, error_name
from evidence.differential.scenario import scenario
from evidence.differential.share_group_verbs import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    alter_offsets,
    configure,
    delete_offsets,
    describe_share,
    joined,
    share_beat,
    share_offsets,
    topic_for_shares,
)
from oncelog.wire.uuids import uuid_text

KIND = "share"


@scenario(KIND)
def share_group_of_one(x: Conversation) -> None:
    t = topic_for_shares(x, "a", 2)
    epoch = joined(x, "g", "m", [t], 2)
    describe_share(x, "g")
    list_group(x, "g")
    list_group(x, "g", types_filter=["share"])
    share_beat(x, "g", "m", epoch, label=" stays")
    delete_group(x, "g")
    share_beat(x, "g", "m", -1)
    share_beat(x, "g", "m", -1, label=" twice")
    describe_share(x, "g")
    list_group(x, "g")
    delete_group(x, "g")
    describe_share(x, "g")


@scenario(KIND)
def share_heartbeat_refusals(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    share_beat(x, "g", "", 0, topics=[t], label=" no member id")
    share_beat(x, "", "m", 0, topics=[t], label=" no group")
    share_beat(x, "g", "m", 0, topics=[t], rack="", label=" empty rack")
    share_beat(x, "g", "m", 0, label=" no topics")
    share_beat(x, "g", "m", 0, topics=[], label=" empty topics")
    share_beat(x, "g", "m", -2, label=" static leave")
    share_beat(x, "g", "m", 5, label=" unknown group")
    share_beat(x, "g", "m", -1, label=" unknown group")
    joined(x, "g", "m", [t], 1)
    share_beat(x, "g", "n", 5, label=" unknown member")
    share_beat(x, "g", "n", -1, label=" unknown member")


@scenario(KIND)
def share_groups_are_no_other_groups(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    joined(x, "g", "m", [t], 1)
    beat(x, "g", "c", 0, topics=[t], label=" consumer in a share group")
    describe_group(x, "g")
    beat(x, "c", "c", 0, topics=[t], quiet=True)
    share_beat(x, "c", "m", 0, topics=[t], label=" share in a consumer group")
    share_beat(x, "c", "m", -1)
    describe_share(x, "c")
    alter_offsets(x, "c", [(t, 0, 0)])
    delete_offsets(x, "c", [t])
    share_offsets(x, "c")


@scenario(KIND)
def share_coordinators(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    topic_id = uuid_text(x.topic_id(t))
    for key, version in (("g:{}:0", 6), ("g:h:{}:0", 6), ("g:{}:x", 6), (":{}:0", 6), ("g:t:0", 6), ("g", 6), ("", 6)):
        reply = x.call("FindCoordinator", version, key_type=2, coordinator_keys=[key.format(topic_id)])
        x.say(f"find v{version} {key}", error_name(reply.coordinators[0].error_code))
    reply = x.call("FindCoordinator", 5, key_type=2, coordinator_keys=[f"g:{topic_id}:0"])
    x.say("find v5", error_name(reply.coordinators[0].error_code))


@scenario(KIND)
def share_records_are_acquired_and_acknowledged(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g")
    joined(x, "g", "m", [t], 1)
    m = Member(x, "g", "m", t)
    m.fetch(wait=0)
    x.produce(t, 0, n=10)
    m.fetch()
    m.fetch(wait=0, label=" nothing more")
    m.fetch((0, 3, [ACCEPT]), (4, 5, [RELEASE, REJECT]))
    share_offsets(x, "g")
    m.acknowledge((0, 3, [ACCEPT]), label=" below the start")
    m.acknowledge((5, 5, [ACCEPT]), label=" archived")
    m.acknowledge((20, 20, [ACCEPT]), label=" never acquired")
    m.acknowledge((6, 7, [ACCEPT]), (7, 8, [ACCEPT]), label=" overlapping")
    m.acknowledge((6, 6, [ACCEPT]), (20, 20, [ACCEPT]), label=" one of two")
    m.acknowledge((6, 7, [GAP]), (8, 9, [ACCEPT]))
    share_offsets(x, "g")
    m.acknowledge((4, 4, [ACCEPT]))
    share_offsets(x, "g")
    m.acknowledge(epoch=-1, label=" the end")
    m.acknowledge(epoch=-1, label=" the end twice")


@scenario(KIND)
def share_acknowledgements_that_are_malformed(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g")
    joined(x, "g", "m", [t], 1)
    x.produce(t, 0, n=10, quiet=True)
    m = Member(x, "g", "m", t)
    m.fetch()
    m.acknowledge((0, 0, [9]), label=" unknown type")
    m.acknowledge((0, 0, [-1]), label=" negative type")
    m.acknowledge((2, 1, [ACCEPT]), label=" reversed")
    m.acknowledge((5, 6, [ACCEPT]), (0, 1, [ACCEPT]), label=" not in order")
    m.acknowledge((0, 2, [ACCEPT, ACCEPT]), label=" too few types")
    m.acknowledge((0, 2, []), label=" no types")
    m.acknowledge((0, 0, [RENEW]), label=" a renewal that was not announced")
    m.acknowledge((0, 0, [RENEW]), renews=True, label=" announced")
    m.acknowledge((0, 0, [ACCEPT]), partition=7, label=" unknown partition")
    m.fetch((0, 0, [7]), label=" unknown type with a fetch")
    m.acknowledge((0, 9, [ACCEPT]))
    configure(x, "g", renew_acknowledge_enable="false")
    x.produce(t, 0, n=1, quiet=True)
    m.fetch()
    m.acknowledge((10, 10, [ACCEPT]))


@scenario(KIND)
def share_sessions(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g")
    joined(x, "g", "m", [t], 1)
    m = Member(x, "g", "m", t)
    m.fetch(epoch=3, wait=0, label=" no session")
    m.fetch(epoch=-1, wait=0, label=" no session")
    m.acknowledge((0, 0, [ACCEPT]), epoch=1, label=" no session")
    m.acknowledge((0, 0, [ACCEPT]), epoch=0, label=" cannot begin one")
    m.fetch((0, 0, [ACCEPT]), epoch=0, wait=0, label=" acknowledges at the beginning")
    m.fetch(wait=0)
    m.fetch(epoch=5, wait=0, label=" a later epoch")
    m.fetch(epoch=0, wait=0, label=" anew")
    m.fetch(wait=0)
    m.fetch(epoch=1, wait=0, label=" the epoch before")
    m.fetch(epoch=-1, wait=0, label=" the end")
    m.fetch(wait=0, label=" after the end")
    Member(x, "g", "", t).fetch(wait=0, label=" no member id")


@scenario(KIND)
def share_records_come_back(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g")
    joined(x, "g", "m", [t], 1)
    x.produce(t, 0, n=4, quiet=True)
    m, n = Member(x, "g", "m", t), Member(x, "g", "n", t)
    m.fetch()
    n.fetch(wait=0, label=" another has them")
    n.acknowledge((0, 0, [ACCEPT]), label=" another has it")
    m.acknowledge((0, 0, [RELEASE]), (1, 1, [ACCEPT]))
    n.until_fetched(label=": released")
    m.connection.close()
    n.until_fetched(label=": the other's connection is gone")
    n.acknowledge(epoch=-1)
    o = Member(x, "g", "o", t)
    o.fetch(wait=0, quiet=True)
    o.until_fetched(label=": the other's session has ended")


@scenario(KIND)
def share_locks_end(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g", record_lock_duration_ms=1000)
    joined(x, "g", "m", [t], 1)
    x.produce(t, 0, n=2, quiet=True)
    m, n = Member(x, "g", "m", t), Member(x, "g", "n", t)
    m.fetch()
    n.fetch(wait=0)
    n.until_fetched(label=": the lock was over")
    m.acknowledge((0, 1, [ACCEPT]), label=" too late")
    n.acknowledge((0, 1, [ACCEPT]))
    share_offsets(x, "g")


@scenario(KIND)
def share_records_come_so_often(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g", delivery_count_limit=2)
    joined(x, "g", "m", [t], 1)
    x.produce(t, 0, n=1, quiet=True)
    m = Member(x, "g", "m", t)
    m.fetch()
    m.acknowledge((0, 0, [RELEASE]))
    m.fetch()
    m.acknowledge((0, 0, [RELEASE]))
    m.fetch(wait=0, label=" archived")
    x.produce(t, 0, n=1, quiet=True)
    m.fetch()
    m.acknowledge((1, 1, [ACCEPT]))
    share_offsets(x, "g")


@scenario(KIND)
def share_records_come_in_batches(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g")
    joined(x, "g", "m", [t], 1)
    for _ in range(6):
        x.produce(t, 0, n=5, quiet=True)
    m = Member(x, "g", "m", t)
    m.fetch(records=1)
    m.fetch(records=7)
    m.fetch(batch=5, records=10)
    m.acknowledge((0, 24, [ACCEPT]))
    m.fetch(records=2, exact=True)
    m.fetch(records=2, exact=True)
    m.acknowledge((25, 28, [ACCEPT]))
    m.fetch(records=2, exact=True)
    m.acknowledge((29, 29, [ACCEPT]))
    share_offsets(x, "g")


@scenario(KIND)
def share_records_under_way_are_bounded(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g", partition_max_record_locks=100)
    joined(x, "g", "m", [t], 1)
    for _ in range(4):
        x.produce(t, 0, n=50, quiet=True)
    m = Member(x, "g", "m", t)
    m.fetch()
    m.fetch(wait=0, label=" no more")
    m.acknowledge((0, 49, [ACCEPT]))
    m.fetch()
    m.acknowledge((50, 149, [ACCEPT]))
    m.fetch()


@scenario(KIND)
def share_read_committed(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g", isolation_level="read_committed")
    joined(x, "g", "m", [t], 1)
    m = Member(x, "g", "m", t)
    x.produce(t, 0, n=2, quiet=True)
    producer = x.init("tx")
    x.produce(t, 0, n=3, producer=producer, sequence=0, transactional_id="tx")
    x.produce(t, 0, n=1, quiet=True)
    m.fetch(wait=500, label=" up to the last stable offset")
    m.fetch(wait=0, label=" the transaction is open")
    x.end("tx", *producer, False)
    x.wait_until_stable(t, 0, 7)
    m.until_fetched(label=": aborted")
    m.acknowledge((0, 1, [ACCEPT]), (5, 6, [ACCEPT, GAP]))
    producer = x.init("tx")
    x.produce(t, 0, n=2, producer=producer, sequence=0, transactional_id="tx", quiet=True)
    x.end("tx", *producer, True)
    x.wait_until_stable(t, 0, 10)
    m.until_fetched(label=": committed")
    m.acknowledge((7, 9, [ACCEPT, ACCEPT, GAP]))
    share_offsets(x, "g")


@scenario(KIND)
def share_read_uncommitted(x: Conversation) -> None:
    t = topic_for_shares(x, "a")
    configure(x, "g")
    joined(x, "g", "m", [t], 1)
    producer = x.init("tx")
    x.produce(t, 0, n=3, producer=producer, sequence=0, transactional_id="tx", quiet=True)
    m = Member(x, "g", "m", t)
    m.fetch(wait=500)
    x.end("tx", *producer, False)
    x.wait_until_stable(t, 0, 4)
    m.until_fetched(label=": the marker")
    m.acknowledge((0, 3, [ACCEPT, ACCEPT, ACCEPT, GAP]))
    share_offsets(x, "g")


@scenario(KIND)
def share_offsets_are_altered_and_deleted(x: Conversation) -> None:
    t = topic_for_shares(x, "a", 2)
    x.produce(t, 0, n=10, quiet=True)
    share_offsets(x, "g")
    share_offsets(x, "g", [(t, [0, 7])])
    delete_offsets(x, "g", [t])
    alter_offsets(x, "", [(t, 0, 3)])
    alter_offsets(x, "g", [(t, 0, 3)])
    describe_share(x, "g")
    share_offsets(x, "g")
    joined(x, "g", "m", [t], 2)
    alter_offsets(x, "g", [(t, 0, 5)])
    delete_offsets(x, "g", [t])
    m = Member(x, "g", "m", t)
    m.fetch()
    m.acknowledge(epoch=-1)
    share_beat(x, "g", "m", -1, quiet=True)
    alter_offsets(x, "g", [(t, 0, 5), (t, 1, 100), ("nowhere", 0, 1)])
    share_offsets(x, "g")
    joined(x, "g", "m", [t], 2)
    n = Member(x, "g", "m", t)
    n.fetch()
    n.acknowledge((5, 9, [ACCEPT]))
    n.acknowledge(epoch=-1)
    share_beat(x, "g", "m", -1, quiet=True)
    delete_offsets(x, "g", [t, "nowhere"])
    delete_offsets(x, "g", [t])
    share_offsets(x, "g")
    delete_group(x, "g")
