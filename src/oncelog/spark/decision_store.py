"""Where the decisions of a query live: a compacted topic (default) or a database table (option decisionUrl).

Both give one operation that matters: `append_and_read`, after which everybody agrees on what stands for a batch. On the
topic the first decision in the log wins, so the compare-and-set is an append followed by a read up to it: no lock, no
transaction whose open end could hold other queries' readers, and a retry after an unknown outcome is harmless.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from oncelog import errors, sync
from oncelog.client.admin.configs import ConfigResource
from oncelog.core.producer.partitioner import partition_for_key
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.decision_homes import topic_home
from oncelog.spark.options import SinkOptions, client_arguments
from oncelog.spark.reading import FETCH_MAX_WAIT_MS, records_until
from oncelog.spark.rights import rights_named
from oncelog.types import TopicPartition

DECISION_PARTITION_COUNT = 4
DECISION_BYTES_MAX = 8 * 1024 * 1024
"""Of a decision before it is compressed: about 35,000 tasks that wrote something. The topic is made with this limit for records
as they are stored; one that an earlier version made takes about 20,000, as decisions are compressed now."""
RECORD_OVERHEAD_BYTES = 1024  # of a decision's record beside its value: its key, which has a query's name, and headers


LastLook = Callable[[], int | None]
"""Asked when nothing is left to wait for but the decision's own write: within how many ms that has to be durable (None: no
bound). What it raises keeps the decision from being written."""


class DecisionStore(Protocol):
    """What the committer needs of a store."""

    home: str
    """As the transactional ids of who decides here say it (core/two_phase/decision_homes.py)."""

    def known(self, query_id: str, batch_id: str) -> sink.KnownRecords:
        """What stands of a batch now."""
        ...

    def decide(self, decision: sink.BatchDecision, *, last_look: LastLook | None = None) -> sink.KnownRecords:
        """Propose a decision; returns what stands afterwards, which may be an older one, or a veto."""
        ...

    def veto(self, query_id: str, batch_id: str, run_id: str) -> sink.KnownRecords:
        """Forbid a run to decide a batch; returns what stands afterwards, which may be a decision."""
        ...

    def done(self, decision: sink.BatchDecision, note: bytes = b"{}") -> None:
        """Every winner was completed and every orphan ended; older records of the query may go. `note`: what it cost, for who
        looks (batch_numbers.py); a store may leave it out."""
        ...

    def decided(self, query_id: str | None = None) -> list[tuple[sink.BatchDecision, bool]]:
        """All decisions that are kept, with whether they are done."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class TopicDecisionStore:
    """Decisions in a compacted topic; one instance reads on from where it stopped, so later reads are short."""

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        self._topic, self.home = topic, topic_home(topic)
        self._log = sink.DecisionLog()
        self._next_offsets: dict[int, int] = {}
        self._elsewhere: dict[str, int] = {}  # queries whose records lie in another partition than the hash says
        self._looked_everywhere = False
        _create_topic(client, topic)
        large = {"compression.type": "gzip", "max.request.size": DECISION_BYTES_MAX + RECORD_OVERHEAD_BYTES}
        self._producer = sync.Producer.from_config(client_arguments(client, **{"linger.ms": 0}, **large))
        self._producer.start()
        reads = {
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": FETCH_MAX_WAIT_MS,
        }
        self._consumer = sync.Consumer.from_config(client_arguments(client, **reads))
        self._consumer.start()
        self._partition_count = len(self._consumer.partitions_for_topic(topic))

    def _hashed(self, query_id: str) -> int:
        return partition_for_key(query_id.encode(), self._partition_count)

    def _partition(self, query_id: str) -> int:
        """Where a query's records are. A topic that was given more partitions keeps those of before where they were."""
        hashed = self._hashed(query_id)
        if not self._looked_everywhere and not query_id.startswith(sink.JOB_PREFIX):  # a job's id is new
            self._read(hashed)
            if not self._log.knows(query_id):
                self._looked_everywhere = True
                for partition in range(self._partition_count):
                    self._read(partition)
        return self._elsewhere.get(query_id, hashed)

    def _append(
        self, query_id: str, records: list[tuple[bytes, bytes | None]], last_look: LastLook | None = None
    ) -> None:
        partition = self._partition(query_id)
        self._producer.partitions_for(self._topic)
        begin_s, within_ms = time.monotonic(), None if last_look is None else last_look()
        sent = [self._producer.send(self._topic, key=key, value=value, partition=partition) for key, value in records]
        if within_ms is not None:
            self._wait(sent, begin_s, within_ms)
            return
        self._producer.flush()
        for each in sent:
            each.result()  # flush tells of no record that was refused

    def _wait(self, sent: list[sync.SentRecord], begin_s: float, within_ms: int) -> None:
        """For the acknowledgements, and no longer: later the record is not to be written any more."""
        try:
            for each in sent:
                each.result(max(within_ms - round((time.monotonic() - begin_s) * 1000), 1))
        except TimeoutError:
            self._producer.purge()
            raise errors.RequestTimedOut(
                f"the decision was not acknowledged within {within_ms} ms, and the transactions that it names could time out: "
                "it is given up, and whether it stands is found out by the next attempt at the batch"
            ) from None

    def _read(self, partition: int) -> None:
        where = TopicPartition(self._topic, partition)
        end = self._consumer.end_offsets([where])[where]
        position = self._next_offsets.get(partition, 0)
        if position < end:
            for record in records_until(self._consumer, where, position, end):
                query_id = self._log.apply(record.key or b"", record.value)
                if query_id is not None and self._hashed(query_id) != partition:
                    self._elsewhere.setdefault(query_id, partition)
            self._next_offsets[partition] = self._consumer.position(where)

    def known(self, query_id: str, batch_id: str) -> sink.KnownRecords:
        """What stands of a batch, after reading to the end of the log."""
        self._read(self._partition(query_id))
        return self._log.known(query_id, batch_id)

    def decide(self, decision: sink.BatchDecision, *, last_look: LastLook | None = None) -> sink.KnownRecords:
        """Append, then read up to it: the first decision in the log stands."""
        key = sink.record_key(decision.query_id, decision.batch_id, sink.DECISION, decision.run_id)
        value = sink.decision_value(decision)
        if len(value) > DECISION_BYTES_MAX:
            raise errors.ConfigurationError(
                f"{_too_many(decision)}, {len(value)} bytes; {DECISION_BYTES_MAX} are the most: {FEWER_TASKS}"
            )
        try:
            self._append(decision.query_id, [(key, value)], last_look)
        except errors.RecordTooLarge as error:
            raise errors.ConfigurationError(
                f"{_too_many(decision)}, more than the topic {self._topic!r} takes in a record: oncelog configs set --topic "
                f"{self._topic} max.message.bytes={DECISION_BYTES_MAX}, or {FEWER_TASKS}"
            ) from error
        return self.known(decision.query_id, decision.batch_id)

    def veto(self, query_id: str, batch_id: str, run_id: str) -> sink.KnownRecords:
        """Append a veto, then read up to it."""
        self._append(query_id, [(sink.record_key(query_id, batch_id, sink.VETO, run_id), b"{}")])
        return self.known(query_id, batch_id)

    def done(self, decision: sink.BatchDecision, note: bytes = b"{}") -> None:
        """Mark done, and drop the query's older batches that were done before; the newest stays."""
        marked = sink.record_key(decision.query_id, decision.batch_id, sink.DONE, decision.run_id)
        records: list[tuple[bytes, bytes | None]] = [(marked, note)]
        records += [(key, None) for key in self._log.to_be_forgotten(decision)]
        self._append(decision.query_id, records)

    def decided(self, query_id: str | None = None) -> list[tuple[sink.BatchDecision, bool]]:
        """All decisions kept in the topic."""
        for partition in range(self._partition_count) if query_id is None else [self._partition(query_id)]:
            self._read(partition)
        return self._log.decided(query_id)

    def close(self) -> None:
        """Close both clients."""
        self._producer.stop()
        self._consumer.stop()


FEWER_TASKS = (
    "let fewer tasks write (coalesce, spark.sql.shuffle.partitions), or keep decisions in a database (decisionUrl)"
)


def _too_many(decision: sink.BatchDecision) -> str:
    return f"batch {decision.batch_id} has {len(decision.winners)} transactions, and the decision names each"


def _create_topic(client: Mapping[str, str], topic: str) -> None:
    with sync.Admin.from_config(client_arguments(client)) as admin:
        if topic in admin.list_topics():
            _refuse_forgetful(admin, topic)
            return
        try:
            with rights_named(client, "create", [topic]):
                configs = {"cleanup.policy": "compact", "max.message.bytes": str(DECISION_BYTES_MAX)}
                admin.create_topics({topic: {"partitions": DECISION_PARTITION_COUNT, "configs": configs}})
        except errors.TopicExists:
            return
        except errors.InvalidTopic as error:
            raise errors.ConfigurationError(f"decisionTopic {topic!r}: {error}") from None


def _refuse_forgetful(admin: sync.Admin, topic: str) -> None:
    """Retention would drop the newest decision of a query that rests, and its batch be written again."""
    resource = ConfigResource("topic", topic)
    try:
        entry = admin.describe_configs([resource], keys=["cleanup.policy"])[resource]["cleanup.policy"]
    except (errors.TopicAuthorization, errors.ClusterAuthorization):
        return  # needs a right that the sink does without: its user need not see the topic's configuration
    if entry.value != "compact":
        raise errors.ConfigurationError(
            f"decisionTopic {topic!r} has cleanup.policy={entry.value} and would forget decisions: take a topic of its own, or, "
            f"where it holds nothing but decisions, oncelog configs set --topic {topic} cleanup.policy=compact"
        )


def check_decision_store(options: SinkOptions) -> None:
    """See on the driver, before a task writes, that decisions can be kept: a store that fails only at the commit leaves
    transactions open, and no abort can end them. Raises ConfigurationError."""
    if options.decision_url is not None:
        decision_store(options)
    else:
        _create_topic(options.client, options.decision_topic)


def check_lengths(url: str, **texts: tuple[str, int]) -> None:
    """See before a task writes that a database's columns take what somebody chose: name -> (text, the most characters).

    Refused at the commit, neither a decision nor a veto could be kept, and nothing could end what was prepared. SQLite takes
    any length, and may have longer ones from earlier. Raises ConfigurationError.
    """
    for name, (text, length_max) in texts.items():
        if len(text) > length_max and not url.startswith("sqlite"):
            raise errors.ConfigurationError(
                f"{name} has {len(text)} characters, and a database of decisions keeps {length_max}: {text!r:.100}"
            )


_stores: dict[tuple[Any, ...], DecisionStore] = {}


def has_decisions(options: SinkOptions) -> bool:
    """Whether the decision topic is there: a cluster that no sink ever wrote to has none, and looking makes none."""
    if options.decision_url is not None:
        return True
    with sync.Admin.from_config(client_arguments(options.client)) as admin:
        return options.decision_topic in admin.list_topics(include_internal=True)


def home_of(options: SinkOptions) -> str:
    """Where these options keep decisions, as transactional ids say it; for the driver, which reaches the database."""
    return topic_home(options.decision_topic) if options.decision_url is None else decision_store(options).home


def decision_store(options: SinkOptions) -> DecisionStore:
    """The store of these options; kept open, as Spark's commit process serves one batch after the other."""
    key = (tuple(sorted(options.client.items())), options.decision_topic, options.decision_url)
    if key not in _stores:
        if options.decision_url is not None:
            from oncelog.spark.database_decisions import DatabaseDecisionStore

            _stores[key] = DatabaseDecisionStore(options.decision_url)
        else:
            _stores[key] = TopicDecisionStore(options.client, options.decision_topic)
    return _stores[key]
