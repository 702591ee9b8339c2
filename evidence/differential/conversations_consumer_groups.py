"""Consumer groups of KIP-848: heartbeats, epochs, assignment, fencing, static members, patterns, offsets."""

from __future__ import annotations

from collections.abc import Iterator

from evidence.differential.consumer_group_verbs import (
    beat,
    delete_group,
    describe_group,
    fetch_as,
    list_group,
    topic_for_groups,
    until_epoch_after,
)
from evidence.differential.conversation import Conversation
from evidence.differential.scenario import RESTART, scenario

KIND = "consumer"


@scenario(KIND)
def consumer_group_of_one(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 3)
    beat(x, "g", "m", 0, topics=[t])
    describe_group(x, "g")
    describe_group(x, "g", v=0)
    list_group(x, "g")
    beat(x, "g", "m", 2)
    beat(x, "g", "m", 2, owned={t: [0, 1, 2]})
    beat(x, "g", "m", 2, topics=[t], owned={t: [0, 1, 2]}, timeout=5000, label=" full")
    beat(x, "g", "m", 0, topics=[t], label=" again")
    beat(x, "g", "m", -1)
    describe_group(x, "g")
    list_group(x, "g")
    beat(x, "g", "m", 2, label=" after leaving")
    beat(x, "g", "m", -1, label=" twice")
    delete_group(x, "g")
    describe_group(x, "g")
    beat(x, "g", "m", 0, topics=[t], label=" anew")


@scenario(KIND)
def consumer_heartbeat_refusals(x: Conversation) -> None:
    t = topic_for_groups(x, "a")
    beat(x, "g", "", 0, topics=[t], label=" no member id")
    beat(x, "", "m", 0, topics=[t], label=" no group")
    beat(x, "g", "m", 0, topics=[t], instance="", label=" empty instance")
    beat(x, "g", "m", 0, topics=[t], rack="", label=" empty rack")
    beat(x, "g", "m", 0, topics=[t], timeout=-1, label=" no timeout")
    beat(x, "g", "m", 0, topics=[t], owned={t: [0]}, label=" owns")
    beat(x, "g", "m", 0, label=" no topics")
    beat(x, "g", "m", 0, topics=[], label=" empty topics")
    beat(x, "g", "m", 0, topics=[], regex="", label=" empty both")
    beat(x, "g", "m", 0, topics=[t], assignor="none", label=" assignor")
    beat(x, "g", "m", -3, label=" epoch")
    beat(x, "g", "m", -2, label=" static leave without instance")
    beat(x, "g", "m", 6, label=" unknown group")
    beat(x, "g", "m", -1, label=" unknown group")
    beat(x, "g", "", -1, v=0, label=" no member id v0")
    beat(x, "g", "", 4, v=0, label=" no member id v0")
    beat(x, "h", "m", 6, label=" unknown group")
    beat(x, "h", "m", -1, label=" unknown group")
    beat(x, "h", "m", 0, topics=[t])
    beat(x, "h", "other", 2, label=" unknown member")
    beat(x, "h", "other", -1, label=" unknown member")
    beat(x, "h", "m", 2, assignor="none", label=" assignor later")
    beat(x, "g", "m", 0, regex="a(", label=" no pattern")


@scenario(KIND)
def consumer_member_id_by_the_broker(x: Conversation) -> None:
    t = topic_for_groups(x, "a")
    made = beat(x, "g", "", 0, topics=[t], v=0)
    beat(x, "g", made.member_id, made.member_epoch, v=0)
    beat(x, "g", made.member_id, -1, v=0)


@scenario(KIND)
def consumer_epochs_that_are_fenced(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 2)
    beat(x, "g", "a", 0, topics=[t])
    beat(x, "g", "a", 3, label=" greater")
    beat(x, "g", "b", 0, topics=[t])
    beat(x, "g", "a", 2)
    beat(x, "g", "a", 2, owned={t: [0]})
    beat(x, "g", "a", 2, owned={t: [0]}, label=" previous epoch again")
    beat(x, "g", "a", 2, owned={t: [0, 1]}, label=" previous epoch, owns too much")
    beat(x, "g", "a", 2, label=" previous epoch, says nothing")
    beat(x, "g", "b", 3)
    describe_group(x, "g")


@scenario(KIND)
def consumer_second_member_waits_for_revocation(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 4)
    beat(x, "g", "a", 0, topics=[t])
    beat(x, "g", "b", 0, topics=[t])
    describe_group(x, "g")
    list_group(x, "g")
    beat(x, "g", "b", 3)
    beat(x, "g", "a", 2, owned={t: [0, 1, 2, 3]})
    describe_group(x, "g")
    beat(x, "g", "b", 3)
    beat(x, "g", "a", 2, label=" says nothing")
    beat(x, "g", "a", 2, owned={t: [0, 1, 2]}, label=" gave one")
    beat(x, "g", "b", 3, label=" still waits")
    beat(x, "g", "a", 2, owned={t: [0, 1]}, label=" gave both")
    beat(x, "g", "b", 3)
    beat(x, "g", "b", 3, owned={t: [2, 3]})
    describe_group(x, "g")
    list_group(x, "g")
    beat(x, "g", "a", -1)
    describe_group(x, "g")
    beat(x, "g", "b", 3)
    describe_group(x, "g")


@scenario(KIND)
def consumer_three_members_come_and_go(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 6)
    epochs = {}
    for who in ("a", "b", "c"):
        epochs[who] = beat(x, "g", who, 0, topics=[t]).member_epoch
    held: dict[str, list[int]] = {}
    for _ in range(3):
        for who in ("a", "b", "c"):
            reply = beat(x, "g", who, epochs[who], owned={t: held.get(who, [])})
            epochs[who] = reply.member_epoch
            if reply.assignment is not None:
                held[who] = [p for each in reply.assignment.topic_partitions for p in each.partitions]
    describe_group(x, "g")
    beat(x, "g", "b", -1)
    for who in ("a", "c"):
        epochs[who] = beat(x, "g", who, epochs[who]).member_epoch
    describe_group(x, "g")


@scenario(KIND)
def consumer_range_assignor(x: Conversation) -> None:
    t, u = topic_for_groups(x, "a", 5), topic_for_groups(x, "b", 3)
    beat(x, "g", "m1", 0, topics=[t, u], assignor="range")
    beat(x, "g", "m2", 0, topics=[t, u], assignor="range")
    describe_group(x, "g")
    beat(x, "g", "m3", 0, topics=[t], assignor="range")
    describe_group(x, "g")
    beat(x, "g", "m0", 0, topics=[t, u], assignor="range", instance="z")
    describe_group(x, "g")


@scenario(KIND)
def consumer_assignors_by_vote(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 4)
    beat(x, "g", "a", 0, topics=[t], assignor="range")
    describe_group(x, "g")
    beat(x, "g", "b", 0, topics=[t], assignor="uniform")
    beat(x, "g", "c", 0, topics=[t], assignor="uniform")
    describe_group(x, "g")


@scenario(KIND)
def consumer_topics_unlike(x: Conversation) -> None:
    t, u, w = topic_for_groups(x, "a", 4), topic_for_groups(x, "b", 2), topic_for_groups(x, "c", 6)
    beat(x, "g", "a", 0, topics=[t])
    beat(x, "g", "b", 0, topics=[t, u])
    beat(x, "g", "c", 0, topics=[u, w])
    describe_group(x, "g")
    beat(x, "g", "d", 0, topics=[w])
    describe_group(x, "g")


@scenario(KIND)
def consumer_topic_created_later(x: Conversation) -> None:
    name = x.name("later")
    beat(x, "g", "m", 0, topics=[name])
    describe_group(x, "g")
    x.topic("later", 2)
    until_epoch_after(x, "g", "m", 2)
    describe_group(x, "g")


@scenario(KIND)
def consumer_partitions_added(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 1)
    beat(x, "g", "m", 0, topics=[t])
    x.call("CreatePartitions", 3, topics=[{"name": t, "count": 3, "assignments": None}], timeout_ms=5000)
    until_epoch_after(x, "g", "m", 2)
    describe_group(x, "g")


@scenario(KIND)
def consumer_topic_deleted(x: Conversation) -> None:
    t, u = topic_for_groups(x, "a", 2), topic_for_groups(x, "b", 1)
    beat(x, "g", "m", 0, topics=[t, u])
    held = {u: [0]}
    x.call("DeleteTopics", 6, topics=[{"name": t}], timeout_ms=5000)
    until_epoch_after(x, "g", "m", 2, owned=held)
    describe_group(x, "g")


@scenario(KIND)
def consumer_subscription_changed(x: Conversation) -> None:
    t, u = topic_for_groups(x, "a", 2), topic_for_groups(x, "b", 2)
    beat(x, "g", "m", 0, topics=[t])
    beat(x, "g", "m", 2, topics=[t, u])
    beat(x, "g", "m", 3, topics=[u], owned={t: [0, 1], u: [0, 1]})
    describe_group(x, "g")
    beat(x, "g", "m", 3, owned={u: [0, 1]})
    describe_group(x, "g")
    beat(x, "g", "m", 4, topics=[t], owned={u: [0, 1]}, label=" the other")
    beat(x, "g", "m", 4, owned={})
    describe_group(x, "g")


@scenario(KIND)
def consumer_static_member_returns(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 2)
    beat(x, "g", "a", 0, topics=[t], instance="i")
    beat(x, "g", "b", 0, topics=[t], instance="i", label=" too early")
    beat(x, "g", "b", 2, instance="i", label=" not joined")
    beat(x, "g", "a", 2, instance="j", label=" other instance")
    beat(x, "g", "a", 2, label=" without instance")
    beat(x, "g", "a", -2, instance="i")
    describe_group(x, "g")
    beat(x, "g", "a", 2, instance="i", label=" while away")
    beat(x, "g", "b", 0, topics=[t], instance="i", label=" returns")
    describe_group(x, "g")
    beat(x, "g", "a", 2, instance="i", label=" the former")
    beat(x, "g", "a", 0, topics=[t], instance="i", label=" the former joins")
    beat(x, "g", "b", -1, instance="i")
    describe_group(x, "g")


@scenario(KIND)
def consumer_static_members_keep_their_share(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 4)
    beat(x, "g", "a", 0, topics=[t], instance="i")
    beat(x, "g", "b", 0, topics=[t], instance="j")
    beat(x, "g", "a", 2, owned={t: [0, 1]}, instance="i")
    beat(x, "g", "a", 2, owned={t: [0, 1]}, instance="i")
    beat(x, "g", "b", 3, instance="j")
    beat(x, "g", "b", -2, instance="j")
    beat(x, "g", "a", 3, instance="i")
    beat(x, "g", "c", 0, topics=[t], instance="j", label=" in place of b")
    describe_group(x, "g")
    beat(x, "g", "c", -2, instance="j")
    beat(x, "g", "d", 0, topics=[t, topic_for_groups(x, "b", 1)], instance="j", label=" with another subscription")
    describe_group(x, "g")


@scenario(KIND)
def consumer_regex(x: Conversation) -> None:
    t, u = topic_for_groups(x, "one", 1), topic_for_groups(x, "two", 1)
    beat(x, "g", "m", 0, regex=x.prefix + "(one|three)")
    until_epoch_after(x, "g", "m", 1)
    describe_group(x, "g")
    beat(x, "g", "n", 0, regex=x.prefix + "(one|three)", label=" the same")
    beat(x, "g", "m", 2, topics=[u], regex="", owned={t: [0]}, label=" names instead")
    describe_group(x, "g")
    beat(x, "g", "m", -1)
    beat(x, "g", "n", -1)
    describe_group(x, "g")


@scenario(KIND)
def consumer_regex_that_matches_nothing(x: Conversation) -> None:
    topic_for_groups(x, "one")
    beat(x, "g", "m", 0, regex=x.prefix + "nothing")
    x.pause(0.5)
    beat(x, "g", "m", 1)
    describe_group(x, "g")


@scenario(KIND)
def consumer_regex_and_names(x: Conversation) -> None:
    t = topic_for_groups(x, "one")
    topic_for_groups(x, "two")
    joined = beat(x, "g", "m", 0, topics=[t], regex=x.prefix + "t.o")
    until_epoch_after(x, "g", "m", joined.member_epoch)
    describe_group(x, "g")


@scenario(KIND)
def consumer_commits(x: Conversation) -> None:
    t = topic_for_groups(x, "a", 2)
    beat(x, "g", "m", 0, topics=[t])
    for v in (8, 9):
        x.commit_offsets("g", [(t, 0, 5)], generation=2, member="m", v=v)
    x.commit_offsets("g", [(t, 0, 6)], generation=3, member="m", v=9, label=" greater")
    x.commit_offsets("g", [(t, 0, 6)], generation=1, member="m", v=9, label=" smaller")
    x.commit_offsets("g", [(t, 0, 6)], generation=2, member="other", v=9)
    x.commit_offsets("g", [(t, 0, 6)], v=9, label=" nobody")
    x.commit_offsets("g", [(t, 0, 6)], generation=-1, member="m", v=9, label=" no epoch")
    fetch_as(x, "g", "m", 2, t)
    fetch_as(x, "g", "m", 1, t)
    fetch_as(x, "g", "m", 3, t)
    fetch_as(x, "g", "other", 2, t)
    fetch_as(x, "g", "", -1, t)
    fetch_as(x, "g", None, -1, t)
    fetch_as(x, "none", "m", 4, t)
    beat(x, "g", "m", -1)
    x.commit_offsets("g", [(t, 0, 7)], v=9, label=" empty group")
    x.commit_offsets("g", [(t, 0, 7)], generation=2, member="m", v=9, label=" empty group")
    fetch_as(x, "g", "m", 2, t, " empty group")
    fetch_as(x, "g", None, -1, t, " empty group")


@scenario(KIND)
def consumer_commits_with_an_older_epoch(x: Conversation) -> None:
    """KIP-1251: with an older epoch for what the member has had since then."""
    t = topic_for_groups(x, "a", 2)
    beat(x, "g", "a", 0, topics=[t])
    beat(x, "g", "b", 0, topics=[t])
    beat(x, "g", "a", 2, owned={t: [0, 1]})
    x.commit_offsets("g", [(t, 0, 5), (t, 1, 5)], generation=2, member="a", v=9, label=" while revoking")
    beat(x, "g", "a", 2, owned={t: [0]})
    x.commit_offsets("g", [(t, 0, 6)], generation=2, member="a", v=9, label=" older epoch")
    x.commit_offsets("g", [(t, 0, 6), (t, 1, 6)], generation=2, member="a", v=9, label=" older epoch, one is gone")
    beat(x, "g", "b", 3)
    x.commit_offsets("g", [(t, 1, 7)], generation=3, member="b", v=9)
    x.commit_offsets("g", [(t, 1, 7)], generation=2, member="b", v=9, label=" before it was given")
    x.offset_fetch("g", [(t, [0, 1])])


@scenario(KIND)
def consumer_transactional_commits(x: Conversation) -> None:
    t = topic_for_groups(x, "a")
    beat(x, "g", "m", 0, topics=[t])
    pid, e = x.init("t")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1)], label=" nobody")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], generation=2, member="m")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 3)], generation=3, member="m")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 3)], generation=1, member="m")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 3)], generation=2, member="other")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 3)], generation=-1, member="m")
    x.offset_fetch("g", [(t, [0])], stable=True)
    x.end("t", pid, e, True, settle=True)
    x.offset_fetch("g", [(t, [0])], stable=True)


@scenario(KIND)
def consumer_group_and_classic_requests(x: Conversation) -> None:
    t = topic_for_groups(x, "a")
    beat(x, "g", "m", 0, topics=[t])
    for v in (5, 6):
        found = x.call("DescribeGroups", v, groups=[x.name("g")]).groups[0]
        x.say(f"describe v{v}", found.error_code, found.group_state, repr(found.error_message if v >= 6 else None))
    x.heartbeat("g", 2, "m")
    x.sync("g", 2, "m")
    x.join("g")
    x.join("g", member="m")
    x.leave("g", [("nobody", None)])
    x.leave("g", [("", "i")])
    delete_group(x, "g")
    for filters in ({"types_filter": ["consumer"]}, {"types_filter": ["classic"]}, {"states_filter": ["stable"]}):
        list_group(x, "g", **filters)
    list_group(x, "g", states_filter=["Empty"])
    list_group(x, "g", v=4)
    x.leave("g", [("m", None)])
    describe_group(x, "g")
    describe_group(x, "nosuch")


@scenario(KIND)
def consumer_group_where_a_classic_one_is_empty(x: Conversation) -> None:
    t = topic_for_groups(x, "a")
    x.commit_offsets("g", [(t, 0, 5)])
    list_group(x, "g")
    describe_group(x, "g")
    beat(x, "g", "m", 6, label=" not joined")
    beat(x, "g", "m", 0, topics=[t])
    list_group(x, "g")
    x.offset_fetch("g", [(t, [0])])
    beat(x, "g", "m", -1)
    x.leave("g", [])
    member, generation = x.only_member("g")
    list_group(x, "g")
    x.heartbeat("g", generation, member)
    x.offset_fetch("g", [(t, [0])])


@scenario(KIND)
def consumer_offset_delete(x: Conversation) -> None:
    t, u = topic_for_groups(x, "a"), topic_for_groups(x, "b")
    beat(x, "g", "m", 0, topics=[t])
    x.commit_offsets("g", [(t, 0, 5), (u, 0, 5)], generation=2, member="m", v=9)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in (t, u)]
    reply = x.call("OffsetDelete", 0, group_id=x.name("g"), topics=topics)
    x.say("offset-delete", reply.error_code, *[each.partitions[0].error_code for each in reply.topics])
    x.offset_fetch("g", None)


def set_assignment_interval(x: Conversation, group: str, interval_ms: int) -> None:
    """For one group; in force when it is described so."""
    kind, key = 32, "consumer.assignment.interval.ms"
    configs = [{"name": key, "config_operation": 0, "value": str(interval_ms)}]
    resource = {"resource_type": kind, "resource_name": x.name(group)}
    x.call("IncrementalAlterConfigs", 1, resources=[resource | {"configs": configs}])

    def is_in_force() -> bool | None:
        found = x.call("DescribeConfigs", 4, resources=[resource | {"configuration_keys": [key]}]).results[0]
        return True if [each.value for each in found.configs] == [str(interval_ms)] else None

    x.until(is_in_force)


@scenario("core")
def consumer_assignment_interval(x: Conversation) -> None:
    """KIP-1263: the second member waits for the next assignment. The wait is long at first and then none: a second would be
    over before the next line on a slow machine."""
    t = topic_for_groups(x, "a", 2)
    set_assignment_interval(x, "g", 15_000)
    beat(x, "g", "a", 0, topics=[t])
    beat(x, "g", "b", 0, topics=[t])
    describe_group(x, "g")
    beat(x, "g", "a", 2, owned={t: [0, 1]})
    set_assignment_interval(x, "g", 0)
    beat(x, "g", "a", 2, owned={t: [0, 1]})
    beat(x, "g", "a", 2, owned={t: [0]})
    beat(x, "g", "b", 2)
    describe_group(x, "g")


@scenario(RESTART)
def consumer_group_after_restart(x: Conversation) -> Iterator[tuple[str, int]]:
    t = topic_for_groups(x, "a", 2)
    beat(x, "g", "a", 0, topics=[t], instance="i")
    x.commit_offsets("g", [(t, 0, 5)], generation=2, member="a", v=9)
    yield t, 2
    x.find_group("g")
    describe_group(x, "g")
    beat(x, "g", "a", 2, instance="i")
    beat(x, "g", "b", 0, topics=[t])
    x.offset_fetch("g", [(t, [0])])
