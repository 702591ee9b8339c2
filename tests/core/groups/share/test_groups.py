"""Share groups as their coordinator decides: members, epochs, assignments, sessions that end, the log."""

from __future__ import annotations

from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.errors import ErrorCode
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.share_group_describe import ShareGroupDescribeRequest
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.core.groups.performed_groups import GroupShell

E = ErrorCode
CONFIG = GroupConfig(group_share_assignment_interval_ms=0, group_share_max_size=3)


class Shares(GroupShell):
    """With the states that a shell begins before a heartbeat."""

    def __init__(self, config=CONFIG, partitions=4):
        super().__init__(config)
        self.topics_changed(t=partitions)

    def topics_changed(self, **counts):
        for name, count in counts.items():
            self.create_topic(name, count)

    def beat(self, member="m", epoch=0, *names, begins=True):
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, subscribed_topic_names=list(names) or None
        )
        begun = self.coordinator.share_groups.to_begin(request) if begins else {}
        return self.perform(
            self.coordinator.share_group_heartbeat(
                request, client_id="c", client_host="/h", begun=begun, now_ms=self.now_ms
            )
        )

    @property
    def group(self):
        return self.coordinator.share_groups.by_id["g"]


def held(reply):
    return sorted(index for each in reply.assignment.topic_partitions for index in each.partitions)


def test_a_member_has_everything_at_once_and_shares_it_with_the_next():
    shell = Shares()
    first = shell.beat("m", 0, "t")
    assert (first.member_epoch, held(first), first.heartbeat_interval_ms) == (2, [0, 1, 2, 3], 5_000)
    assert shell.beat("m", 2).assignment is None, "nothing has changed"
    second = shell.beat("n", 0, "t")
    assert (second.member_epoch, held(second)) == (3, [2, 3])
    moved = shell.beat("m", 2)
    assert (moved.member_epoch, held(moved)) == (3, [0, 1])
    assert shell.beat("m", 2).member_epoch == 3, "a retry of the epoch before, whose answer was lost"
    assert shell.beat("m", 1).error_code == E.FENCED_MEMBER_EPOCH
    assert shell.beat("m", 9).error_code == E.FENCED_MEMBER_EPOCH
    shell.beat("o", 0, "t")
    assert shell.beat("p", 0, "t").error_code == E.GROUP_MAX_SIZE_REACHED
    assert shell.beat("n", -1).member_epoch == -1
    assert shell.beat("n", 3).error_code == E.UNKNOWN_MEMBER_ID


def test_partitions_without_a_state_are_nobodys():
    shell = Shares()
    assert held(shell.beat("m", 0, "t", begins=False)) == []
    assert held(shell.beat("m", 2, "t")) == [0, 1, 2, 3]
    assert shell.group.begun == {shell.topics.topics["t"].topic_id: frozenset(range(4))}


def test_a_session_ends_without_heartbeats():
    shell = Shares()
    shell.beat("m", 0, "t")
    shell.beat("n", 0, "t")
    shell.now_ms += 44_000
    shell.beat("n", 3)
    shell.now_ms += 2_000
    shell.run_due()
    assert list(shell.group.members) == ["n"]
    assert held(shell.beat("n", 3)) == [0, 1, 2, 3]
    shell.now_ms += 46_000
    shell.run_due()
    described = shell.perform(
        shell.coordinator.share_group_describe(ShareGroupDescribeRequest(group_ids=["g", "x"]))
    ).groups
    assert [each.group_state for each in described] == ["Empty", ""]
    deleted = shell.perform(shell.coordinator.delete_groups(DeleteGroupsRequest(groups_names=["g"])))
    assert deleted.results[0].error_code == E.NONE
    assert not shell.coordinator.knows_group("g")


def test_a_restart_knows_what_was_there():
    shell = Shares()
    shell.beat("m", 0, "t")
    shell.beat("n", 0, "t")
    again = GroupCoordinator(0, CONFIG, topics=shell.topics)
    for entry in shell.log:
        record = again.record_from_key_value(entry[0], entry[1])
        assert record is not None
        again.apply(record)
    again.loaded(7)
    before, after = shell.group, again.share_groups.by_id["g"]
    assert (after.members, after.targets, after.begun) == (before.members, before.targets, before.begun)
    assert (after.group_epoch, after.assignment_epoch) == (before.group_epoch, before.assignment_epoch)
    assert after.deadlines_ms == {"m": 45_007, "n": 45_007}, "fresh sessions"
    assert again.member_count == 2


def test_an_answer_waits_for_what_it_rests_on():
    shell = Shares()
    shell.holds_commits = True
    shell.beat("m", 0, "t")
    assert shell.coordinator.is_ahead
    shell.commit()
    assert not shell.coordinator.is_ahead
