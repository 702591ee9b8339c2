"""The world of the coordinator's transcripts: one coordinator, its log, the markers on their way, a clock at 0.

Commands (identities are written producer id/epoch; MAX is epoch 32767, so MAX-1 is 32766):
  level N | two-phase on | clock +MS | next-id N | at TID ID/EPOCH [2pc] | next TID ID/EPOCH (as if by many keep-inits)
  init TID [ID/EPOCH] [v=5] [timeout=MS] [2pc] [keep]     init - (no transactional id)
  add TID ID/EPOCH PARTITION ... [v=5] [verify]           offsets TID ID/EPOCH [v=3]
  end TID ID/EPOCH commit|abort [v=5] [needs=PARTITION:SEQUENCE,...] [attempt=N]   (default: one more than before)
  arrived PARTITION SEQUENCE    the last sequence of the open transaction there, as a leader of this broker would say it
  markers [TID] | marker TID PARTITION ERROR [stored=EPOCH]
  hold | commit | lose          append without committing; commit what is appended; its append failed
  describe TID | list [state=S] [pid=N] [older=MS] [like=RE] | state TID
  timeouts | expire | restart | rewrite TID (as an older broker does, which knows of no conditions)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oncelog.core.decision import Decision, MarkersToWrite
from oncelog.core.transactions.coordinator import MarkerResult, TransactionConfig, TransactionCoordinator
from oncelog.core.transactions.init_producer_id import new_producer_id
from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.core.transactions.transaction import NAMES
from oncelog.errors import ErrorCode
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.transaction_state import (
    TWO_PHASE_TIMEOUT_MS,
    TransactionLogRecord,
    TransactionRecord,
    TransactionTombstone,
    record_from_key_value,
    record_to_key_value,
)
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from oncelog.wire.messages.end_txn import EndTxnRequest, NeededPartition, NeededTopic
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.list_transactions import ListTransactionsRequest

OFFSETS = TopicPartition("__consumer_offsets", 7)


class CoordinatorWorld:
    """Performs decisions as a shell does, at once unless told to `hold`."""

    def __init__(self, *, level: int = 3, next_id: int = 10) -> None:
        self.level = level
        self.now_ms = 0
        self.coordinator_epoch = 0
        self.two_phase = False
        self.holding = False
        self.producer_ids = ProducerIds()
        self.producer_ids.give_block(next_id, 1000)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.arrived: dict[TopicPartition, int] = {}
        self.attempt = 0
        self.held: list[tuple[tuple[TransactionLogRecord, ...], Decision]] = []
        self.outstanding: list[MarkersToWrite] = []
        self.coordinator = self.loaded()

    def loaded(self) -> TransactionCoordinator:
        config = TransactionConfig(two_phase_commit_enable=self.two_phase)
        coordinator = TransactionCoordinator(0, self.coordinator_epoch, config, self.producer_ids, lambda: self.level)
        for key, value in self.log:
            record = record_from_key_value(key, value)
            assert record is not None
            coordinator.apply(record)
        return coordinator

    def handle(self, words: list[str]) -> str:
        """Perform one command; what it answers."""
        command = getattr(self, "do_" + words[0].replace("-", "_"))
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word and "/" not in word.split("=")[0])
        flags = [word for word in words[1:] if "=" not in word]
        return "\n".join(command(*flags, **options))

    # -- the world itself

    def do_level(self, level: str) -> list[str]:
        self.level = int(level)
        return []

    def do_two_phase(self, switch: str) -> list[str]:
        self.two_phase = switch == "on"
        self.coordinator = self.loaded()
        return []

    def do_clock(self, step: str) -> list[str]:
        self.now_ms += int(step)
        return []

    def do_next_id(self, first: str) -> list[str]:
        self.producer_ids = self.coordinator.table.producer_ids = ProducerIds()
        if first != "none":
            self.producer_ids.give_block(int(first), 1000)
        return []

    def do_at(self, name: str, identity: str, *flags: str) -> list[str]:
        producer_id, producer_epoch = parsed(identity)
        timeout_ms = TWO_PHASE_TIMEOUT_MS if "2pc" in flags else 60000
        record = TransactionRecord(name, producer_id, producer_epoch, timeout_ms, last_update_ms=self.now_ms)
        return self.perform(Decision(records=(record,)))

    def do_next(self, name: str, identity: str) -> list[str]:
        producer_id, producer_epoch = parsed(identity)
        record = self.coordinator.get(name)
        assert record is not None
        kept = replace(record, next_producer_id=producer_id, next_producer_epoch=producer_epoch)
        return self.perform(Decision(records=(kept,)))

    def do_hold(self) -> list[str]:
        self.holding = True
        return []

    def do_commit(self) -> list[str]:
        self.holding = False
        lines = []
        for records, decision in self.held:
            lines += self.committed(records, decision)
        self.held = []
        return lines

    def do_lose(self) -> list[str]:
        for records, _ in self.held:
            self.coordinator.failed(records)
            del self.log[-len(records) :]
        self.held = []
        self.holding = False
        return []

    def do_rewrite(self, name: str) -> list[str]:
        record = self.coordinator.get(name)
        assert record is not None
        self.coordinator.apply(replace(record, committed_on_condition=None))
        return []

    def do_restart(self) -> list[str]:
        for records, _ in self.held:
            del self.log[-len(records) :]
        self.held, self.outstanding, self.holding = [], [], False
        self.coordinator_epoch += 1
        self.coordinator = self.loaded()
        return [
            line for decision in self.coordinator.pending_completions(self.now_ms) for line in self.perform(decision)
        ]

    # -- requests

    def do_init(
        self, name: str, identity: str = "-1/-1", *flags: str, v: str = "", timeout: str = "60000"
    ) -> list[str]:
        if "/" not in identity:
            identity, flags = "-1/-1", (identity, *flags)
        producer_id, producer_epoch = parsed(identity)
        request = InitProducerIdRequest(
            transactional_id=None if name == "-" else name,
            transaction_timeout_ms=int(timeout),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            enable_2pc="2pc" in flags,
            keep_prepared_txn="keep" in flags,
        )
        version = int(v or (6 if flags else 5))
        if name == "-":
            return self.perform(new_producer_id(self.producer_ids, request))
        return self.perform(self.coordinator.init_producer_id(request, version, self.now_ms))

    def do_add(self, name: str, identity: str, *flags: str, v: str = "5") -> list[str]:
        producer_id, producer_epoch = parsed(identity)
        topics = by_topic(flag for flag in flags if flag != "verify")
        if int(v) < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=producer_epoch,
                v3_and_below_topics=topics,
            )
            return self.perform(self.coordinator.add_partitions_to_txn(request, int(v), self.now_ms))
        entry = AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only="verify" in flags,
            topics=topics,
        )
        return self.perform(self.coordinator.add_partitions(entry, int(v), self.now_ms))

    def do_offsets(self, name: str, identity: str, v: str = "3") -> list[str]:
        producer_id, producer_epoch = parsed(identity)
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=producer_epoch, group_id="g"
        )
        return self.perform(self.coordinator.add_offsets_to_txn(request, int(v), self.now_ms, OFFSETS))

    def do_arrived(self, partition: str, sequence: str) -> list[str]:
        self.arrived[partition_of(partition)] = int(sequence)
        return []

    def do_end(
        self, name: str, identity: str, result: str, v: str = "5", needs: str = "", attempt: str = ""
    ) -> list[str]:
        producer_id, producer_epoch = parsed(identity)
        self.attempt = int(attempt or self.attempt + 1)
        needed = [
            (partition_of(each), int(last)) for each, _, last in (n.partition(":") for n in needs.split(",") if n)
        ]
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed={"commit": True, "abort": False}[result],
            needed=[
                NeededTopic(
                    name=each.topic, partitions=[NeededPartition(partition_index=each.partition, last_sequence=n)]
                )
                for each, n in needed
            ],
            attempt=self.attempt if needed else 0,
        )
        return self.perform(self.coordinator.end_txn(request, int(v), self.now_ms, self._has_arrived))

    def _has_arrived(self, needed: Mapping[TopicPartition, int]) -> bool:
        return all(self.arrived.get(name) == last for name, last in needed.items())

    # -- markers and time

    def do_markers(self, name: str = "") -> list[str]:
        lines = []
        for markers in [m for m in self.outstanding if name in ("", m.transactional_id)]:
            lines += self.answered(markers, dict.fromkeys(markers.partitions, MarkerResult()))
        return lines

    def do_marker(self, name: str, partition: str, error: str, stored: str = "-1") -> list[str]:
        where = partition_of(partition)
        for markers in self.outstanding:
            if markers.transactional_id == name and where in markers.partitions:
                return self.answered(markers, {where: MarkerResult(ErrorCode[error], int(stored))})
        raise AssertionError("no such marker is on its way")

    def answered(self, markers: MarkersToWrite, results: dict[TopicPartition, MarkerResult]) -> list[str]:
        self.outstanding.remove(markers)
        rest = markers.partitions - set(results)
        if rest:
            self.outstanding.append(replace(markers, partitions=rest))
        return self.perform(self.coordinator.markers_written(markers, results, self.now_ms))

    def do_timeouts(self) -> list[str]:
        return [line for decision in self.coordinator.timed_out(self.now_ms) for line in self.perform(decision)]

    def do_expire(self) -> list[str]:
        return [line for decision in self.coordinator.expired(self.now_ms) for line in self.perform(decision)]

    # -- questions

    def do_describe(self, name: str) -> list[str]:
        state = self.coordinator.describe_transaction(name)
        topics = [f"{topic.topic}-{partition}" for topic in state.topics for partition in topic.partitions]
        return [
            (
                f"{ErrorCode(state.error_code).name} {state.transaction_state or '-'} "
                f"{state.producer_id}/{state.producer_epoch} timeout={state.transaction_timeout_ms} "
                f"start={state.transaction_start_time_ms} {topics}"
            )
        ]

    def do_list(self, state: str = "", pid: str = "", older: str = "-1", like: str = "") -> list[str]:
        request = ListTransactionsRequest(
            state_filters=state.split(",") if state else [],
            producer_id_filters=[int(pid)] if pid else [],
            duration_filter=int(older),
            transactional_id_pattern=like or None,
        )
        reply = self.coordinator.list_transactions(request, self.now_ms)
        lines = [f"{t.transactional_id} {t.producer_id} {t.transaction_state}" for t in reply.transaction_states]
        unknown = [f"unknown {name}" for name in reply.unknown_state_filters]
        return [ErrorCode(reply.error_code).name, *unknown, *lines]

    def do_state(self, name: str) -> list[str]:
        """In the words of KIP-939's examples."""
        record = self.coordinator.get(name)
        assert record is not None
        return [
            (
                f"{NAMES[record.state]}, ProducerId={record.producer_id}, ProducerEpoch={shown(record.producer_epoch)}, "
                f"PrevProducerId={record.previous_producer_id}, NextProducerId={record.next_producer_id}, "
                f"NextProducerEpoch={shown(record.next_producer_epoch)}"
            )
        ]

    # -- what a shell does

    def perform(self, decision: Decision) -> list[str]:
        records = decision.records
        self.log += map(record_to_key_value, records)
        self.coordinator.appended(records)
        lines = [log_line(record) for record in records]
        if self.holding and records:
            self.held.append((records, decision))
            return lines
        return lines + self.committed(records, decision)

    def committed(self, records: tuple[TransactionLogRecord, ...], decision: Decision) -> list[str]:
        for record in records:
            self.coordinator.apply(record)
        self.outstanding += decision.markers
        reply = [] if decision.reply is None else [reply_line(decision)]
        return reply + [marker_line(markers) for markers in decision.markers]


def parsed(identity: str) -> ProducerIdAndEpoch:
    producer_id, text = identity.split("/")
    minus = text.removeprefix("MAX")
    return ProducerIdAndEpoch(int(producer_id), 32767 + int(minus or 0) if text != minus else int(text))


def shown(producer_epoch: int) -> str:
    return {32767: "MAX", 32766: "MAX-1", 32765: "MAX-2"}.get(producer_epoch, str(producer_epoch))


def partition_of(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def by_topic(names: Iterable[str]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, list[int]] = {}
    for topic, partition in map(partition_of, names):
        topics.setdefault(topic, []).append(partition)
    return [AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in topics.items()]


def log_line(record: TransactionLogRecord) -> str:
    if isinstance(record, TransactionTombstone):
        return f"log {record.transactional_id} (tombstone)"
    words = [f"log {record.transactional_id} {NAMES[record.state]} {record.producer_id}/{shown(record.producer_epoch)}"]
    if record.previous_producer_id != -1:
        words.append(f"previous={record.previous_producer_id}")
    if record.next_producer_id != -1:
        words.append(f"next={record.next_producer_id}/{shown(record.next_producer_epoch)}")
    if record.last_producer_epoch != -1:
        words.append(f"last={shown(record.last_producer_epoch)}")
    if record.committed_on_condition:
        words.append("on-condition")
    if record.timeout_ms != 60000:
        words.append(f"timeout={record.timeout_ms}")
    if record.partitions:
        words.append(",".join(map(str, sorted(record.partitions))))
    return " ".join(words)


def marker_line(markers: MarkersToWrite) -> str:
    result = "COMMIT" if markers.commit else "ABORT"
    return (
        f"markers {markers.transactional_id} {result} {markers.producer_id}/{shown(markers.producer_epoch)} "
        f"coordinator={markers.coordinator_epoch} version={markers.transaction_version} "
        f"{','.join(map(str, sorted(markers.partitions)))}"
    )


def reply_line(decision: Decision) -> str:
    reply = decision.reply
    held = " (may be held)" if decision.held_until_complete else ""
    results = getattr(reply, "topic_results", None) or getattr(reply, "results_by_topic_v3_and_below", None)
    if results is not None:
        return "reply " + " ".join(map(topic_line, results)) + held
    line = "reply " + ErrorCode(reply.error_code).name
    if getattr(reply, "producer_id", -1) != -1:
        line += f" {reply.producer_id}/{shown(reply.producer_epoch)}"
    if getattr(reply, "ongoing_txn_producer_id", -1) != -1:
        line += f" ongoing {reply.ongoing_txn_producer_id}/{shown(reply.ongoing_txn_producer_epoch)}"
    return line + held


def topic_line(topic: AddPartitionsToTxnTopicResult) -> str:
    return " ".join(
        f"{topic.name}-{r.partition_index}={ErrorCode(r.partition_error_code).name}" for r in topic.results_by_partition
    )
