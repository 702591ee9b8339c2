"""What one transaction coordinator knows: the transactions of one `__transaction_state` partition.

Logged state changes only in `apply`, live and in recovery alike. Beside it stands soft state: which transitions are
appended but not committed yet (`pending`), which markers of a decided transaction are still unwritten, and the last refusal of
a conditional commit. All of it may be forgotten with the process: what was on its way to that is gone too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.core.transactions.transaction import EXHAUSTED_PRODUCER_EPOCH, MAY_FOLLOW, PREPARED, TransactionRecord
from oncelog.lazy_dataclass import dataclass
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionLogRecord, TransactionTombstone


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's broker settings that a coordinator needs, in ms."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    two_phase_commit_enable: bool = False


class TransactionTable:
    """State of one coordinator, and the facts that its rules ask for."""

    def __init__(
        self,
        coordinator_epoch: int,
        config: TransactionConfig,
        producer_ids: ProducerIds,
        transaction_version: Callable[[], int],
    ) -> None:
        self.coordinator_epoch = coordinator_epoch
        self.config = config
        self.producer_ids = producer_ids
        self.transaction_version = transaction_version
        self.transactions: dict[str, TransactionRecord] = {}
        self.pending: dict[str, TransactionLogRecord] = {}
        self.unwritten: dict[str, set[TopicPartition]] = {}
        self._refused_attempts: dict[str, tuple[ProducerIdAndEpoch, int]] = {}

    @property
    def value_version(self) -> int:
        """KIP-915: tagged fields are written from `transaction.version` 1 on."""
        return 1 if self.transaction_version() >= 1 else 0

    @property
    def highest_producer_id(self) -> int:
        """Of those that it knows; -1 where there is none."""
        return max((each.producer_id for each in self.transactions.values()), default=-1)

    def get(self, transactional_id: str) -> TransactionRecord | None:
        """The committed state of an id."""
        return self.transactions.get(transactional_id)

    def is_busy(self, transactional_id: str) -> bool:
        """Whether a transition is under way: appended and not committed, or decided and not yet complete.

        Kafka keeps a pending state for the whole Prepare phase; so a request may not tell the two apart.
        """
        if transactional_id in self.pending:
            return True
        transaction = self.transactions.get(transactional_id)
        return transaction is not None and transaction.state in PREPARED

    def refused_attempt(self, transactional_id: str, identity: ProducerIdAndEpoch, attempt: int) -> None:
        """A conditional commit was not attempted."""
        if not self.was_overtaken(transactional_id, identity, attempt):
            self._refused_attempts[transactional_id] = (identity, attempt)

    def was_overtaken(self, transactional_id: str, identity: ProducerIdAndEpoch, attempt: int) -> bool:
        """Whether this conditional commit comes after the refusal of a later one: its producer was told that none is done, and
        will not be, and may be sending an abort."""
        whose, last_refused = self._refused_attempts.get(transactional_id, (None, 0))
        return whose == identity and attempt <= last_refused

    def bumped(self, identity: ProducerIdAndEpoch) -> ProducerIdAndEpoch | None:
        """The identity after this one; a new producer id where the epochs are used up, None while there is no id."""
        if identity.producer_epoch < EXHAUSTED_PRODUCER_EPOCH:
            return ProducerIdAndEpoch(identity.producer_id, identity.producer_epoch + 1)
        return self.new_identity()

    def new_identity(self) -> ProducerIdAndEpoch | None:
        """A new producer id with epoch 0."""
        producer_id = self.producer_ids.take()
        return None if producer_id is None else ProducerIdAndEpoch(producer_id, 0)

    def appended(self, records: Iterable[TransactionLogRecord]) -> None:
        """The records are in the log, not committed yet: their ids are busy."""
        for record in records:
            before = self.pending.get(record.transactional_id) or self.get(record.transactional_id)
            _check_transition(before, record)
            self.pending[record.transactional_id] = record

    def failed(self, records: Iterable[TransactionLogRecord]) -> None:
        """The append did not happen or is not known to be durable; the coordinator's partition must be recovered."""
        for record in records:
            if self.pending.get(record.transactional_id) is record:
                del self.pending[record.transactional_id]

    def apply(self, record: TransactionLogRecord) -> None:
        """Take over one committed record: live, and when the log is read."""
        transactional_id = record.transactional_id
        if self.pending.get(transactional_id) is record:
            del self.pending[transactional_id]
        self.unwritten.pop(transactional_id, None)
        if isinstance(record, TransactionTombstone):
            self.transactions.pop(transactional_id, None)
            self._refused_attempts.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = record
        if record.state in PREPARED:
            self.unwritten[transactional_id] = set(record.partitions)
            self._refused_attempts.pop(transactional_id, None)


def _check_transition(before: TransactionLogRecord | None, record: TransactionLogRecord) -> None:
    """Not asked in `apply`: a compacted log lacks steps."""
    if not isinstance(record, TransactionRecord):
        assert isinstance(before, TransactionRecord), record
        return
    if not isinstance(before, TransactionRecord):
        assert record.state.name == "EMPTY", record
        return
    assert before.state in MAY_FOLLOW[record.state], (before, record)
    assert record.producer_id != before.producer_id or record.producer_epoch >= before.producer_epoch, (before, record)
