"""A shell without I/O for tests: performs a group coordinator's decisions over a list of key-value pairs."""

from __future__ import annotations

from typing import Any

from oncelog.core.decision import Decision
from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.wire.consumer_protocol import Subscription, assignment_from_bytes, subscription_to_bytes
from oncelog.wire.log_records.cluster_metadata import RemoveTopicRecord, TopicRecord
from oncelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NO_DELAY = GroupConfig(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0)
RANGE = (("range", b"subscription"),)


class GroupShell:
    """Appends at once and commits at once, unless `holds_commits`; keeps the answers of tokens in `answers`."""

    def __init__(self, config: GroupConfig = NO_DELAY, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.config = config
        self.topics = ClusterMetadata()
        self.coordinator = GroupCoordinator(0, config, topics=self.topics)
        self.coordinator.loaded(now_ms)
        self.log: list[tuple[bytes, bytes | None, int, int] | tuple[int, int, bool]] = []
        self.uncommitted: list[Any] = []
        self.holds_commits = False
        self.answers: dict[int, Any] = {}
        self.tokens = 0
        self.uuids = 0

    # -- what a shell does -----------------------------------------------------------------------------------------

    def perform(self, decision: Decision) -> Any:
        coordinator = self.coordinator
        if decision.records:
            for record in decision.records:
                key, value = coordinator.record_to_key_value(record)
                self.log.append((key, value, getattr(record, "producer_id", -1), getattr(record, "producer_epoch", -1)))
            coordinator.appended(decision.records)
            self.uncommitted += decision.records
            if not self.holds_commits:
                self.commit()
        for token, response in decision.replies:
            assert token not in self.answers, "one token, one answer"
            self.answers[token] = response
        return decision.reply

    def commit(self) -> None:
        """Everything appended so far is committed."""
        records, self.uncommitted = self.uncommitted, []
        for record in records:
            self.coordinator.apply(record)
        self.run_due()

    def run_due(self) -> None:
        while (timer_ms := self.coordinator.next_timer()) is not None and timer_ms <= self.now_ms:
            self.perform(self.coordinator.handle_timer(self.now_ms))

    def marker(self, producer_id: int, producer_epoch: int = 0, *, commit: bool) -> None:
        self.log.append((producer_id, producer_epoch, commit))
        self.coordinator.apply_marker(producer_id, producer_epoch, commit)

    def advance(self, duration_ms: int) -> None:
        """Lets time pass, from timer to timer."""
        end_ms = self.now_ms + duration_ms
        while True:
            timer_ms = self.coordinator.next_timer()
            if timer_ms is None or timer_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, timer_ms)
            self.run_due()
        self.now_ms = end_ms

    def replayed(self, end: int | None = None) -> GroupCoordinator:
        """A coordinator that knows only the log (up to `end`)."""
        coordinator = GroupCoordinator(0, self.config, topics=self.topics)
        for entry in self.log[:end]:
            if len(entry) == 3:
                coordinator.apply_marker(*entry)
            else:
                key, value, producer_id, producer_epoch = entry
                record = coordinator.record_from_key_value(
                    key, value, producer_id=producer_id, producer_epoch=producer_epoch
                )
                assert record is not None
                coordinator.apply(record)
        return coordinator

    def restart(self) -> None:
        self.coordinator = self.replayed()
        self.coordinator.loaded(self.now_ms)
        self.uncommitted = []

    # -- requests --------------------------------------------------------------------------------------------------

    def _answer(self, decision: Decision, token: int) -> Any:
        """The answer, or the token of a request that waits."""
        reply = self.perform(decision)
        if reply is not None:
            return reply
        return self.answers.get(token, token)

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        version: int = 9,
        client_id: str = "c",
    ) -> Any:
        self.tokens += 1
        self.uuids += 1
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        decision = self.coordinator.join_group(
            request,
            version,
            client_id=client_id,
            client_host="/127.0.0.1",
            token=self.tokens,
            member_uuid=str(self.uuids),
            now_ms=self.now_ms,
        )
        return self._answer(decision, self.tokens)

    def join_with_id(self, **how: Any) -> Any:
        """The two joins of KIP-394."""
        first = self.join(**how)
        return self.join(first.member_id, **how)

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        version: int = 4,
    ) -> Any:
        self.tokens += 1
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=data)
                for each, data in (assignments or {}).items()
            ],
        )
        return self._answer(
            self.coordinator.sync_group(request, version, token=self.tokens, now_ms=self.now_ms), self.tokens
        )

    def heartbeat(
        self, member_id: str, generation_id: int, *, group_id: str = "g", instance_id: str | None = None
    ) -> int:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=instance_id
        )
        return int(self.perform(self.coordinator.heartbeat(request, self.now_ms)).error_code)

    def leave(self, *members: tuple[str, str | None], group_id: str = "g", version: int = 5) -> Any:
        request = LeaveGroupRequest(group_id=group_id)
        if version < 3:
            request.member_id = members[0][0]
        else:
            request.members = [MemberIdentity(member_id=each, group_instance_id=static) for each, static in members]
        return self.perform(self.coordinator.leave_group(request, version, self.now_ms))

    def commit_offset(
        self,
        offset: int,
        *,
        group_id: str = "g",
        topic: str = "t",
        partition: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
        metadata: str | None = "",
        retention_time_ms: int = -1,
        version: int = 9,
    ) -> int:
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_time_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        reply = self.perform(self.coordinator.commit_offsets(request, version, self.now_ms))
        return int(reply.topics[0].partitions[0].error_code)

    def txn_commit_offset(
        self,
        offset: int,
        *,
        group_id: str = "g",
        topic: str = "t",
        partition: int = 0,
        producer_id: int = 1,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
        metadata: str | None = "",
    ) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id="tid",
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        reply = self.perform(self.coordinator.txn_commit_offsets(request, self.now_ms))
        return int(reply.topics[0].partitions[0].error_code)

    def fetch(
        self, *partitions: tuple[str, int], group_id: str = "g", require_stable: bool = False
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """(topic, partition) -> (offset, error code); of all topics where none is named."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        wanted = [OffsetFetchRequestTopics(name=each, partition_indexes=indexes) for each, indexes in topics.items()]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=wanted or None)
        request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
        reply = self.perform(self.coordinator.fetch_offsets(request, 9))
        return {
            (topic.name, each.partition_index): (each.committed_offset, int(each.error_code))
            for topic in reply.groups[0].topics
            for each in topic.partitions
        }

    def offset(self, *, group_id: str = "g", topic: str = "t", partition: int = 0) -> int:
        return self.fetch((topic, partition), group_id=group_id)[topic, partition][0]

    # -- consumer groups (KIP-848) ---------------------------------------------------------------------------------

    def create_topic(self, name: str, partition_count: int = 1, generation: int = 0) -> bytes:
        """Creates a topic, or gives it more partitions; its id comes from its name."""
        topic_id = topic_id_of(name, generation)
        self.topics.apply(TopicRecord(name=name, topic_id=topic_id, partition_count=partition_count))
        return topic_id

    def delete_topic(self, name: str) -> None:
        self.topics.apply(RemoveTopicRecord(topic_id=self.topics.topics[name].topic_id))

    def beat(
        self,
        member_id: str,
        member_epoch: int,
        *,
        group_id: str = "g",
        topics: tuple[str, ...] | None = None,
        regex: str | None = None,
        owned: dict[str, tuple[int, ...]] | None = None,
        timeout_ms: int | None = None,
        assignor: str | None = None,
        instance_id: str | None = None,
        rack_id: str | None = None,
        version: int = 1,
        client_id: str = "c",
    ) -> Any:
        """A heartbeat; a join (epoch 0) brings a rebalance timeout and owns nothing, unless told otherwise."""
        if member_epoch == 0:
            timeout_ms = 60_000 if timeout_ms is None else timeout_ms
            owned = {} if owned is None else owned
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=member_epoch,
            instance_id=instance_id,
            rack_id=rack_id,
            rebalance_timeout_ms=-1 if timeout_ms is None else timeout_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [TopicPartitions(topic_id=topic_id_of(name), partitions=list(held)) for name, held in owned.items()],
        )
        self.uuids += 1
        decision = self.coordinator.consumer_group_heartbeat(
            request,
            version,
            client_id=client_id,
            client_host="/127.0.0.1",
            member_uuid=f"made-{self.uuids}",
            now_ms=self.now_ms,
        )
        reply = self.perform(decision)
        self.run_due()
        return reply

    def held(self, reply: Any) -> dict[str, list[int]] | None:
        """The assignment of a heartbeat's answer by topic names, None where it has none."""
        if reply.assignment is None:
            return None
        names = self.topics.topics_by_id
        return {names[each.topic_id].name: each.partitions for each in reply.assignment.topic_partitions}

    def described(self, group_id: str = "g") -> Any:
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        return self.perform(self.coordinator.consumer_group_describe(request)).groups[0]

    def shares(self, group_id: str = "g") -> dict[str, list[str]]:
        """Member id -> what it has, from the group's description."""
        return {
            each.member_id: [
                f"{topic.topic_name}-{p}" for topic in each.assignment.topic_partitions for p in topic.partitions
            ]
            for each in self.described(group_id).members
        }

    def join_as_consumer(self, member_id: str, topics: tuple[str, ...], **how: Any) -> Any:
        """A classic join with the embedded consumer protocol."""
        owned = how.pop("owned", ())
        metadata = subscription_to_bytes(Subscription(topics, owned_partitions=owned))
        names = how.pop("names", ("range",))
        return self.join(member_id, protocols=tuple((name, metadata) for name in names), **how)

    def synced(self, member_id: str, generation_id: int, **how: Any) -> list[str]:
        """What a classic member is told that it has."""
        reply = self.sync(member_id, generation_id, **how)
        assert reply.error_code == 0, reply
        return [str(each) for each in assignment_from_bytes(reply.assignment).partitions]

    # -- a group that is there -------------------------------------------------------------------------------------

    def stable_pair(self, **how: Any) -> tuple[str, str, int]:
        """A stable group of two: (leader's id, follower's id, generation)."""
        leader = self.join_with_id(**how)
        self.sync(leader.member_id, leader.generation_id, {leader.member_id: b"all"})
        token = self.join_with_id(**how)
        again = self.join(leader.member_id, **how)
        follower = self.answers[token]
        self.sync(again.member_id, again.generation_id, {again.member_id: b"first", follower.member_id: b"second"})
        self.sync(follower.member_id, again.generation_id)
        return again.member_id, follower.member_id, again.generation_id


def topic_id_of(name: str, generation: int = 0) -> bytes:
    """Ids that sort as their names."""
    return f"{name}{generation}".encode().rjust(16, b"-")
