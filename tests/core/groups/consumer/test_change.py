"""What raises the group's epoch, when targets are computed, and which topics patterns match."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.groups.config import GroupConfig
from oncelog.errors import ErrorCode
from tests.core.groups.performed_groups import NO_DELAY, GroupShell


@pytest.fixture
def shell():
    made = GroupShell()
    made.create_topic("t", 2)
    return made


def epoch_of(shell):
    return shell.described().group_epoch


def test_a_new_group_begins_with_the_change_of_its_first_member(shell):
    shell.beat("m", 0, topics=("t",))
    assert epoch_of(shell) == 2
    other = GroupShell()
    other.beat("m", 0, topics=())
    assert epoch_of(other) == 1


def test_more_partitions_and_deleted_topics_are_new_epochs(shell):
    shell.beat("m", 0, topics=("t", "u"))
    shell.beat("m", 2)
    assert epoch_of(shell) == 2
    shell.create_topic("t", 3)
    assert shell.held(shell.beat("m", 2)) == {"t": [0, 1, 2]}
    shell.create_topic("u", 1)
    assert shell.held(shell.beat("m", 3)) == {"t": [0, 1, 2], "u": [0]}
    shell.delete_topic("t")
    reply = shell.beat("m", 4, owned={"u": (0,)})
    assert (shell.held(reply), reply.member_epoch) == ({"u": [0]}, 5)


def test_a_topic_that_nobody_reads_changes_nothing(shell):
    shell.beat("m", 0, topics=("t",))
    shell.create_topic("other", 1)
    shell.beat("m", 2)
    assert epoch_of(shell) == 2


def test_targets_wait_for_the_assignment_interval():
    shell = GroupShell(GroupConfig(group_consumer_assignment_interval_ms=1_000))
    shell.create_topic("t", 2)
    shell.beat("a", 0, topics=("t",))
    reply = shell.beat("b", 0, topics=("t",))
    assert (reply.member_epoch, shell.held(reply), epoch_of(shell)) == (2, {}, 3)
    shell.advance(999)
    assert shell.beat("a", 2).assignment is None
    shell.advance(1)
    assert shell.held(shell.beat("a", 2)) == {"t": [0]}


def test_the_assignor_of_the_most_members_wins(shell):
    shell.beat("a", 0, topics=("t",), assignor="range")
    assert shell.described().assignor_name == "range"
    shell.beat("b", 0, topics=("t",))
    shell.beat("c", 0, topics=("t",), assignor="uniform")
    assert shell.described().assignor_name == "uniform"


def test_a_pattern_is_resolved_after_the_answer(shell):
    reply = shell.beat("m", 0, regex="t.*")
    assert (shell.held(reply), reply.member_epoch) == ({}, 1)
    assert shell.held(shell.beat("m", 1)) == {"t": [0, 1]}


def test_a_known_pattern_counts_at_once_and_goes_with_its_last_member(shell):
    shell.beat("m", 0, regex="t.*")
    shell.beat("n", 0, regex="t.*")
    group = shell.coordinator.consumer_groups.by_id["g"]
    assert list(group.regexes) == ["t.*"]
    shell.beat("m", -1)
    assert list(group.regexes) == ["t.*"]
    shell.beat("n", -1)
    assert group.regexes == {}


def test_a_pattern_is_resolved_at_once_where_the_group_has_no_other_any_more(shell):
    """It waited for the ten seconds between two looks, though its last member, and what was found for it, had gone."""
    shell.beat("m", 0, regex="t.*")
    shell.beat("m", 1)
    shell.beat("m", -1)
    shell.advance(1)
    epoch = shell.beat("n", 0, regex="t.*").member_epoch
    assert shell.held(shell.beat("n", epoch)) == {"t": [0, 1]}


def test_new_topics_are_seen_ten_seconds_later(shell):
    shell.beat("m", 0, regex="t.*")
    shell.beat("m", 1)
    shell.create_topic("tea", 1)
    shell.advance(10_000)
    assert shell.beat("m", 2).assignment is None
    shell.advance(1)
    shell.beat("m", 2)  # asks for it
    assert shell.held(shell.beat("m", 2)) == {"t": [0, 1], "tea": [0]}


def test_patterns_are_looked_at_again_from_time_to_time():
    shell = GroupShell(GroupConfig(group_consumer_regex_refresh_interval_ms=20_000))
    shell.create_topic("t", 1)
    shell.beat("m", 0, regex="t.*")
    group = shell.coordinator.consumer_groups.by_id["g"]
    shell.advance(20_000)
    shell.beat("m", 1)
    first = group.regexes["t.*"].timestamp_ms
    shell.advance(1)
    shell.beat("m", 2)
    assert (first, group.regexes["t.*"].timestamp_ms) == (0, 20_001)


def test_another_pattern_forgets_the_former(shell):
    shell.create_topic("u", 1)
    shell.beat("m", 0, regex="t.*")
    shell.beat("m", 1)
    reply = shell.beat("m", 2, regex="u", owned={"t": (0, 1)})
    assert shell.held(reply) == {}
    shell.advance(10_001)
    shell.beat("m", 2, owned={})
    shell.beat("m", 2, owned={})
    assert shell.shares() == {"m": ["u-0"]}
    assert list(shell.coordinator.consumer_groups.by_id["g"].regexes) == ["u"]


def test_a_wrong_pattern_of_a_known_member_changes_nothing(shell):
    shell.beat("m", 0, topics=("t",))
    assert shell.beat("m", 2, regex="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert shell.described().members[0].subscribed_topic_regex == ""


def test_a_group_may_have_times_of_its_own():
    shell = GroupShell(NO_DELAY)
    settings = shell.config.consumer_settings({"consumer.session.timeout.ms": "50000"})
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (50_000, 5_000)
    beyond = shell.config.consumer_settings({"consumer.heartbeat.interval.ms": "99999"})
    assert beyond.heartbeat_interval_ms == 15_000


def test_a_pattern_from_another_broker_that_cannot_be_read_matches_nothing(shell):
    shell.beat("m", 0, regex="t.*")
    group = shell.coordinator.consumer_groups.by_id["g"]
    group.replay(replace(group.members["m"], topic_regex="(?x-broken").metadata_record("g"))
    shell.create_topic("u", 1)
    shell.advance(10_001)
    shell.beat("m", 1)
    assert group.regexes["(?x-broken"].topics == ()
