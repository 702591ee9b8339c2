"""All consumer groups of a coordinator: time, the log, and what holds whatever members do."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from oncelog.core.groups.config import GroupConfig
from oncelog.errors import ErrorCode
from tests.core.groups.performed_groups import GroupShell


def pair():
    shell = GroupShell()
    shell.create_topic("t", 2)
    shell.beat("a", 0, topics=("t",))
    shell.beat("b", 0, topics=("t",))
    return shell


def test_a_silent_member_is_out_after_its_session():
    shell = pair()
    shell.advance(44_999)
    shell.beat("b", 3)
    shell.advance(1)
    assert list(shell.shares()) == ["b"]
    assert shell.held(shell.beat("b", 3)) == {"t": [0, 1]}
    assert shell.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_back_in_time_is_out():
    shell = GroupShell()
    shell.create_topic("t", 2)
    shell.beat("a", 0, topics=("t",), timeout_ms=10_000)
    shell.beat("b", 0, topics=("t",))
    shell.beat("a", 2)
    for _ in range(2):
        shell.advance(4_999)
        shell.beat("a", 2)
    assert "a" in shell.shares()
    shell.advance(2)
    assert list(shell.shares()) == ["b"]


def test_who_gave_back_in_time_stays():
    shell = GroupShell()
    shell.create_topic("t", 2)
    shell.beat("a", 0, topics=("t",), timeout_ms=10_000)
    shell.beat("b", 0, topics=("t",))
    shell.beat("a", 2)
    shell.beat("a", 2, owned={"t": (0,)})
    shell.advance(10_000)
    assert set(shell.shares()) == {"a", "b"}


def test_a_restart_keeps_everything_and_gives_fresh_sessions():
    shell = pair()
    shell.beat("a", 2)
    before = shell.described()
    shell.advance(40_000)
    shell.restart()
    assert shell.described() == before
    shell.advance(44_999)
    assert set(shell.shares()) == {"a", "b"}
    shell.advance(1)
    assert shell.shares() == {}


def test_a_restart_goes_on_waiting_for_revocation():
    shell = GroupShell()
    shell.create_topic("t", 2)
    shell.beat("a", 0, topics=("t",), timeout_ms=10_000)
    shell.beat("b", 0, topics=("t",))
    shell.beat("a", 2)
    shell.restart()
    shell.advance(10_000)
    assert list(shell.shares()) == ["b"]


def test_what_is_not_in_the_log_yet_is_ahead():
    shell = pair()
    coordinator = shell.coordinator
    shell.holds_commits = True
    shell.beat("a", 2)
    assert coordinator.consumer_groups.is_ahead
    shell.holds_commits = False
    shell.commit()
    assert not coordinator.consumer_groups.is_ahead


def test_a_decision_that_never_reaches_the_log_leaves_no_group():
    shell = GroupShell()
    shell.create_topic("t", 2)
    decisions = []
    shell.perform = decisions.append  # type: ignore[method-assign]
    shell.beat("a", 0, topics=("t",))
    shell.coordinator.failed(decisions[0].records)
    assert (len(shell.coordinator), shell.coordinator.consumer_groups.is_ahead) == (0, False)


def test_an_empty_group_without_offsets_is_swept_away():
    shell = GroupShell(GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000))
    shell.create_topic("t", 1)
    shell.beat("a", 0, topics=("t",))
    shell.commit_offset(5, generation_id=2, member_id="a")
    shell.beat("a", -1)
    shell.advance(59_000)
    assert shell.offset() == 5
    shell.advance(2_000)
    assert (shell.fetch(), len(shell.coordinator)) == ({}, 0)
    shell.restart()
    assert len(shell.coordinator) == 0


def test_offsets_of_topics_that_are_read_do_not_expire():
    shell = GroupShell(GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000))
    shell.create_topic("t", 1)
    shell.beat("a", 0, topics=("t",))
    shell.commit_offset(5, generation_id=2, member_id="a")
    shell.commit_offset(5, topic="u", generation_id=2, member_id="a")
    for _ in range(7):
        shell.advance(10_000)
        shell.beat("a", 2)
    assert shell.fetch() == {("t", 0): (5, 0)}


def test_the_wall_clock_moves_offsets_only():
    shell = GroupShell(GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000))
    shell.create_topic("t", 1)
    shell.beat("a", 0, topics=("t",))
    shell.commit_offset(5, generation_id=2, member_id="a")
    shell.coordinator.clock.offset_ms = 10_000_000  # somebody set the clock
    shell.advance(2_000)
    assert list(shell.shares()) == ["a"]
    shell.beat("a", -1)
    shell.advance(2_000)
    assert shell.fetch() == {}


MEMBERS = ("a", "b", "c", "d")
TOPICS = ("t", "u")
actions = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from(MEMBERS), st.sets(st.sampled_from(TOPICS), min_size=1)),
        st.tuples(st.just("beat"), st.sampled_from(MEMBERS), st.booleans()),
        st.tuples(st.just("leave"), st.sampled_from(MEMBERS), st.none()),
        st.tuples(st.just("grow"), st.sampled_from(TOPICS), st.none()),
        st.tuples(st.just("restart"), st.none(), st.none()),
        st.tuples(st.just("wait"), st.none(), st.integers(1, 30_000)),
    ),
    max_size=30,
)


class Clients:
    """Members that do what the broker says: what each believes to have is what it really reads."""

    def __init__(self) -> None:
        self.shell = GroupShell()
        self.sizes = {"t": 3, "u": 2}
        for name, size in self.sizes.items():
            self.shell.create_topic(name, size)
        self.epochs: dict[str, int] = {}
        self.holds: dict[str, dict[str, tuple[int, ...]]] = {}

    def take(self, member, reply):
        if reply.error_code:
            self.forget(member)
            return
        self.epochs[member] = reply.member_epoch
        if reply.assignment is not None:
            self.holds[member] = {name: tuple(held) for name, held in self.shell.held(reply).items()}

    def forget(self, member):
        self.epochs.pop(member, None)
        self.holds.pop(member, None)

    def join(self, member, topics):
        self.holds.pop(member, None)
        self.take(member, self.shell.beat(member, 0, topics=tuple(sorted(topics))))

    def beat(self, member, tells):
        if member in self.epochs:
            owned = self.holds.get(member, {}) if tells else None
            self.take(member, self.shell.beat(member, self.epochs[member], owned=owned))

    def leave(self, member, _):
        self.shell.beat(member, -1)
        self.forget(member)

    def grow(self, topic, _):
        self.sizes[topic] += 1
        self.shell.create_topic(topic, self.sizes[topic])

    def restart(self, _, __):
        before = self.shell.described()
        self.shell.restart()
        assert self.shell.described() == before

    def wait(self, _, duration_ms):
        self.shell.advance(duration_ms)
        alive = self.shell.shares() if self.shell.coordinator.consumer_groups.by_id else {}
        for member in [each for each in self.epochs if each not in alive]:
            self.forget(member)  # Kafka's clients stop reading when their session is over

    def check_nothing_is_read_twice(self):
        read = [(t, p) for held in self.holds.values() for t, ps in held.items() for p in ps]
        assert len(read) == len(set(read))


@settings(max_examples=120)
@given(actions)
def test_no_partition_is_read_twice_and_in_the_end_each_is_read(steps):
    clients = Clients()
    for name, first, second in steps:
        getattr(clients, name)(first, second)
        clients.check_nothing_is_read_twice()
    for _ in range(6):
        for member in MEMBERS:
            clients.beat(member, True)
            clients.check_nothing_is_read_twice()
    if not clients.epochs:
        return
    found = clients.shell.described()
    assert found.group_state == "Stable"
    wanted = {name for each in found.members for name in each.subscribed_topic_names}
    expected = sorted((name, index) for name in wanted for index in range(clients.sizes[name]))
    read = sorted((t, p) for held in clients.holds.values() for t, ps in held.items() for p in ps)
    assert read == expected
