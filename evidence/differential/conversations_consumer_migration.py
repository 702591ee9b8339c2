"""Classic groups that become consumer groups, with both kinds of members, and back (KIP-848, "Migration")."""

from __future__ import annotations

from evidence.differential.consumer_group_verbs import (
    beat,
    classic_join,
    classic_sync,
    describe_group,
    fetch_as,
    list_group,
    topic_for_groups,
)
from evidence.differential.conversation import Conversation
from evidence.differential.scenario import scenario

KIND = "consumer"


def classic_of_one(x: Conversation, t: str, partitions: list[int]) -> tuple[str, int]:
    """A stable classic group with one member that has everything."""
    first = classic_join(x, "g", "", [t])
    joined = classic_join(x, "g", first.member_id, [t])
    classic_sync(x, "g", joined.member_id, joined.generation_id, {joined.member_id: {t: partitions}})
    return joined.member_id, joined.generation_id


@scenario(KIND)
def migration_upgrade_and_downgrade(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 4)
    m, g = classic_of_one(x, t, [0, 1, 2, 3])
    list_group(x, "g")
    x.commit_offsets("g", [(t, 0, 5)], generation=g, member=m)
    beat(x, "g", "new", 0, topics=[t])
    describe_group(x, "g")
    list_group(x, "g")
    x.heartbeat("g", g, m)
    classic_sync(x, "g", m, g, label=" old generation")
    x.commit_offsets("g", [(t, 0, 6)], generation=g, member=m, label=" old generation")
    first = classic_join(x, "g", m, [t], owned={t: [0, 1, 2, 3]})
    classic_sync(x, "g", m, first.generation_id)
    describe_group(x, "g")
    x.heartbeat("g", first.generation_id, m)
    second = classic_join(x, "g", m, [t], owned={t: [0, 1]})
    classic_sync(x, "g", m, second.generation_id)
    x.heartbeat("g", second.generation_id, m)
    beat(x, "g", "new", 2)
    describe_group(x, "g")
    x.commit_offsets("g", [(t, 0, 7)], generation=second.generation_id, member=m)
    x.commit_offsets("g", [(t, 0, 7)], generation=9, member=m)
    fetch_as(x, "g", m, second.generation_id, t)
    beat(x, "g", "new", -1)
    list_group(x, "g")
    x.heartbeat("g", second.generation_id, m)
    third = classic_join(x, "g", m, [t], owned={t: [0, 1]})
    classic_sync(x, "g", m, third.generation_id, {m: {t: [0, 1, 2, 3]}})
    x.heartbeat("g", third.generation_id, m)
    list_group(x, "g")
    x.offset_fetch("g", [(t, [0])])


@scenario(KIND)
def migration_classic_member_joins(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 2)
    beat(x, "g", "new", 0, topics=[t])
    first = classic_join(x, "g", "", [t])
    joined = classic_join(x, "g", first.member_id, [t])
    m = joined.member_id
    classic_sync(x, "g", m, joined.generation_id)
    describe_group(x, "g")
    beat(x, "g", "new", 2, owned={t: [0, 1]})
    beat(x, "g", "new", 2, owned={t: [0]})
    x.heartbeat("g", joined.generation_id, m)
    again = classic_join(x, "g", m, [t])
    classic_sync(x, "g", m, again.generation_id)
    x.heartbeat("g", again.generation_id, m)
    x.heartbeat("g", again.generation_id - 1, m)
    x.leave("g", [(m, None)])
    describe_group(x, "g")
    classic_join(x, "g", "unknown", [t], label=" with an id of its own")
    describe_group(x, "g")


@scenario(KIND)
def migration_protocols_that_do_not_fit(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 2)
    beat(x, "g", "new", 0, topics=[t])
    first = classic_join(x, "g", "", [t], protocols=["range", "roundrobin"])
    classic_join(x, "g", first.member_id, [t], protocols=["range", "roundrobin"])
    other = classic_join(x, "g", "", [t], protocols=["sticky"])
    x.call("Heartbeat", 4, group_id=x.name("g"), generation_id=1, member_id=other.member_id)
    classic_join(x, "g", "", [t], protocols=["roundrobin"], v=3)


@scenario(KIND)
def migration_static_member_changes_its_protocol(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 2)
    joined = classic_join(x, "g", "", [t], instance="i")
    classic_sync(x, "g", joined.member_id, joined.generation_id, {joined.member_id: {t: [0, 1]}})
    beat(x, "g", "new", 0, topics=[t], instance="i")
    describe_group(x, "g")
    x.heartbeat("g", joined.generation_id, joined.member_id)
    beat(x, "g", "new", -2, instance="i")
    back = classic_join(x, "g", "", [t], instance="i", label=" back")
    list_group(x, "g")
    classic_sync(x, "g", back.member_id, back.generation_id)
    x.heartbeat("g", back.generation_id, back.member_id)


@scenario(KIND)
def migration_needs_consumers(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 2)
    x.only_member("g")
    beat(x, "g", "new", 0, topics=[t], label=" members speak another protocol")
    list_group(x, "g")
