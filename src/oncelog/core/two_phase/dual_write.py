"""A dual write (KIP-939's recipe): one database transaction and one topic transaction, together or not at all.

Pure: the application's calls and the results of effects go in, `next_effect` says what is to be done. The database's
commit is the decision. The rules: the database is asked to commit only when every record is acknowledged and the topic
prepared; the topic's transaction is committed only after the database said that it holds its state, or was read holding
it; whoever recovers first raises the instance version in a database transaction of its own,
so that no writer still in flight can commit any more, then fences the topic's older producer, and only then reads.
A failure before the database was asked to commit means that nothing was written; after it, that it must be read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

from oncelog.errors import IllegalState
from oncelog.lazy_dataclass import dataclass
from oncelog.types import PreparedTxnState

COMPLETE_ATTEMPTS_MAX = 2  # each waits for max_block_ms; what is decided is completed by the next call as well
HOLD_MS = 250  # well below what a database grants a session between its state and its commit
HOLDS_MAX = 80  # who hears nothing from its broker for so long loses its row to a newer instance
ROUNDS_MAX = 3  # of being fenced by somebody who did not raise the version (an operator), before giving up


class Phase(Enum):
    """Where an instance stands. WRITING and PREPARED have both transactions open."""

    UNRECOVERED = "not recovered"
    READY = "ready"
    WRITING = "writing"
    PREPARED = "prepared"
    IN_DOUBT = "in doubt: the database was asked to commit and did not answer"
    DECIDED = "decided: the database has committed, the topic will"
    FENCED = "fenced by a newer instance"


class Outcome(Enum):
    """How the last transaction ended. UNKNOWN until the database can be read."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StoredState:
    """A row of `kafka_transaction_state`: who may write it, and the last topic transaction that was decided to commit."""

    instance_version: int
    prepared_state: PreparedTxnState


@dataclass(frozen=True, slots=True)
class BeginDatabase:
    """Step 1."""


@dataclass(frozen=True, slots=True)
class BeginTopic:
    """Step 2."""


@dataclass(frozen=True, slots=True)
class AnnounceState:
    """Step 4: let the records leave. Result: the PreparedTxnState that the preparation will give; none where it will fail."""


@dataclass(frozen=True, slots=True)
class PrepareTopic:
    """Step 6: flush, and promise to wait for the decision. Result: PreparedTxnState, the one that was announced, if one was;
    None where the flush takes longer than `within_ms`: nothing is prepared, the records go on."""

    announced: PreparedTxnState | None = None
    within_ms: int | None = None


@dataclass(frozen=True, slots=True)
class HoldDatabase:
    """The records take their time: the database's session, whose state is stored, is not that of a suspended process."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """Step 5, in the transaction of the business rows. Result: False where the row's version is another."""

    stored: StoredState


@dataclass(frozen=True, slots=True)
class CommitDatabase:
    """Step 7, the decision."""


@dataclass(frozen=True, slots=True)
class CompleteTopic:
    """Step 8, and recovery's last: commit if `prepared_state` is the prepared transaction, else abort it."""

    prepared_state: PreparedTxnState


@dataclass(frozen=True, slots=True)
class RollbackDatabase:
    """Give up the open database transaction, if there is one, and its connection where that is in doubt."""


@dataclass(frozen=True, slots=True)
class AbortTopic:
    """Abort the open topic transaction, which nobody has decided to commit."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Raise the version in a transaction of its own; where it is not `expected_version` (None: any), leave it.

    Result: the new version, or None. It waits for a writer in flight, or defeats it.
    """

    expected_version: int | None


@dataclass(frozen=True, slots=True)
class KeepTopic:
    """Start a producer that fences older ones and keeps what they prepared. Result: its PreparedTxnState."""


@dataclass(frozen=True, slots=True)
class ReadState:
    """Read the committed row. Result: StoredState."""


Effect = (
    BeginDatabase
    | BeginTopic
    | AnnounceState
    | PrepareTopic
    | HoldDatabase
    | StoreState
    | CommitDatabase
    | CompleteTopic
    | RollbackDatabase
    | AbortTopic
    | TakeOver
    | KeepTopic
    | ReadState
)


class DualWrite:
    """One instance of one transactional id. After each call carry out effects until `next_effect` gives None."""

    def __init__(self) -> None:
        self.phase = Phase.UNRECOVERED
        self.outcome: Outcome | None = None
        self.instance_version = 0
        self.prepared_state = PreparedTxnState()
        self._effects: deque[Effect] = deque()
        self._under_way: Effect | None = None
        self._expected_version: int | None = None  # None: not known (any more)
        self._needs_keep = True  # our producer is none, or over
        self._kept = PreparedTxnState()
        self._commits = self._is_stored = False
        self._hold_count = self._attempt_count = self._round_count = 0
        self.row_version: int | None = None  # of who has our row, where we have lost it; 0: there is no row any more
        self._is_displaced = False  # the row was not ours; whose it is, is being read

    # -- what the application calls

    def recover(self) -> None:
        """Make both sides agree; nothing where they do. Raises IllegalState inside a transaction, or when fenced."""
        if self.phase in (Phase.WRITING, Phase.PREPARED):
            raise IllegalState(
                "a transaction of this writer is open: another one, recover and complete belong behind its block"
            )
        self._refuse_fenced()
        self._attempt_count = self._round_count = 0
        if self.phase is Phase.READY:
            return
        self.row_version = None
        if self.phase is Phase.DECIDED and not self._needs_keep:
            self._plan(CompleteTopic(self.prepared_state))
            return
        self._needs_keep = self._needs_keep or self.phase is not Phase.IN_DOUBT
        self._plan(RollbackDatabase(), TakeOver(self._expected_version))

    def start_anew(self) -> None:
        """The producer was stopped: `recover` comes next, and starts another."""
        self._needs_keep = True
        if self.phase is Phase.READY:
            self.phase = Phase.UNRECOVERED

    def begin(self) -> None:
        """Begin both transactions. Raises IllegalState unless READY."""
        self._refuse_fenced()
        if self.phase is not Phase.READY:
            raise IllegalState(f"begin: this instance is {self.phase.value}")
        self.outcome, self._commits, self._is_stored, self.row_version = None, False, False, None
        self._plan(BeginDatabase(), BeginTopic())

    def check_may_send(self) -> None:
        """Raise IllegalState unless records may go into the transaction: after `prepare` none may."""
        if self.phase is not Phase.WRITING:
            raise IllegalState(f"send: this instance is {self.phase.value}")

    def prepare(self) -> None:
        """No record follows; rows may."""
        if self.phase is Phase.PREPARED:
            raise IllegalState("prepare: this transaction is prepared already")
        self.check_may_send()
        self._plan(PrepareTopic())

    def commit(self) -> None:
        """Decide to commit. What is not prepared yet is stored while its records travel: nobody sees that before step 7."""
        if self.phase is Phase.WRITING:
            self._commits = True
            self._plan(AnnounceState())
        elif self.phase is Phase.PREPARED:
            self._plan(self._store())
        else:
            raise IllegalState(
                f"nothing was written: stop gave the transaction up inside its block ({self.phase.value})"
            )

    def abandon(self) -> None:
        """Decide to write nothing; nothing where no transaction is open."""
        if self.phase in (Phase.WRITING, Phase.PREPARED):
            self._write_nothing()

    @property
    def is_open(self) -> bool:
        """Whether both transactions are open."""
        return self.phase in (Phase.WRITING, Phase.PREPARED)

    @property
    def may_return(self) -> bool:
        """Whether the caller need not wait for the effect under way: the topic's completion of what is decided.

        Nothing else may be called until it is answered.
        """
        return self.phase is Phase.DECIDED and isinstance(self._under_way, CompleteTopic)

    # -- what the shell asks and tells

    def next_effect(self) -> Effect | None:
        """What to do next; None: the call is done. Each effect is answered before the next is asked for."""
        assert self._under_way is None, "the last effect was not answered"
        self._under_way = self._effects.popleft() if self._effects else None
        if isinstance(self._under_way, TakeOver):
            # Until we hear of it, raised or not: raised by ourselves and not known, it would fence ourselves for good.
            self._expected_version = None
        return self._under_way

    def succeeded(self, result: Any = None) -> None:
        """The effect was carried out."""
        effect, self._under_way = self._under_way, None
        assert effect is not None
        handle = self._HANDLERS.get(type(effect))
        if handle is not None:
            handle(self, result)

    def failed(self, *, is_retriable: bool = False, is_definite: bool = False) -> None:
        """It was not, or nobody knows. `is_definite`: a commit that certainly did not happen."""
        effect, self._under_way = self._under_way, None
        match effect:
            case BeginDatabase():
                self._effects.clear()
                self.outcome = Outcome.ROLLED_BACK
            case BeginTopic():
                self.outcome = Outcome.ROLLED_BACK
                self._lost()
                self._plan(RollbackDatabase())
            case AnnounceState() | PrepareTopic() | HoldDatabase() | StoreState():
                self._write_nothing()
            case CommitDatabase() if is_definite:
                self._write_nothing()
            case CommitDatabase():
                self._plan(RollbackDatabase(), TakeOver(self._expected_version))
            case AbortTopic():
                self._lost()
            case CompleteTopic():
                self._not_completed(effect, is_retriable=is_retriable)
            case TakeOver() | KeepTopic() | ReadState():
                self._lost()
            case RollbackDatabase():
                pass  # what was never asked to commit does not; what was is defeated by the raised version

    def interrupted(self) -> None:
        """The caller goes away in the middle of something (a cancellation, an interrupt): `recover` comes next.

        Whether an effect was under way, answered, or its answer half taken in. Doing it again changes nothing.
        """
        self._under_way = None
        if self.phase in (Phase.WRITING, Phase.PREPARED, Phase.READY) and self.outcome is None:
            self.outcome = Outcome.ROLLED_BACK
        if self.phase is not Phase.DECIDED:
            self._lost()
        self._effects.clear()

    # -- results

    def _begun(self, _: None) -> None:
        self.phase = Phase.WRITING

    def _announced(self, state: PreparedTxnState) -> None:
        if state.is_none:  # no transaction that could be prepared: preparing it says why
            self._plan(PrepareTopic())
            return
        self.prepared_state = state
        self._plan(self._store())

    def _prepared(self, prepared_state: PreparedTxnState | None) -> None:
        if prepared_state is None:
            self._hold_count += 1
            self._plan(HoldDatabase())
            return
        assert not prepared_state.is_none
        assert not self._is_stored or prepared_state == self.prepared_state, "another one is stored"
        self.prepared_state = prepared_state
        self.phase = Phase.PREPARED
        if self._is_stored:
            self._ask_to_commit()
        elif self._commits:
            self._plan(self._store())

    def _stored(self, is_ours: bool) -> None:
        if not is_ours:
            self.outcome = Outcome.ROLLED_BACK
            self._is_displaced = True
            self._plan(RollbackDatabase(), ReadState())
            return
        self._is_stored = True
        if self.phase is Phase.PREPARED:
            self._ask_to_commit()
        else:
            self._hold_count = 0
            self._prepare_what_is_stored()

    def _prepare_what_is_stored(self, _: None = None) -> None:
        self._plan(PrepareTopic(self.prepared_state, HOLD_MS if self._hold_count < HOLDS_MAX else None))

    def _ask_to_commit(self) -> None:
        self.phase, self.outcome = Phase.IN_DOUBT, Outcome.UNKNOWN
        self._plan(CommitDatabase())

    def _database_committed(self, _: None) -> None:
        self.phase, self.outcome = Phase.DECIDED, Outcome.COMMITTED
        self._plan(CompleteTopic(self.prepared_state))

    def _completed(self, _: None) -> None:
        self.phase = Phase.READY
        self._needs_keep = False

    def _taken_over(self, instance_version: int | None) -> None:
        if instance_version is None:
            self._fence()
            return
        self.instance_version = self._expected_version = instance_version
        self._plan(KeepTopic() if self._needs_keep else ReadState())

    def _kept_topic(self, kept: PreparedTxnState) -> None:
        self._kept = kept
        self._plan(ReadState())

    def _displaced_by(self, stored: StoredState) -> None:
        """A newer instance finds our transaction open and not decided: it is the one to abort it. Where the row is gone, or
        an old one was put back, nobody else will."""
        self._is_displaced, self.row_version = False, stored.instance_version
        if not stored.instance_version:
            self._expected_version = None  # whoever comes first makes a new row
        elif stored.instance_version != self.instance_version:  # (else it was deleted in this very transaction)
            self.phase = Phase.FENCED
        if stored.instance_version <= self.instance_version:
            self._plan(AbortTopic())

    def _read(self, stored: StoredState) -> None:
        if self._is_displaced:
            self._displaced_by(stored)
            return
        self._conclude(stored)
        if self.phase is Phase.FENCED:
            return
        if stored.instance_version != self.instance_version:
            self._fence()
            return
        self._plan(CompleteTopic(stored.prepared_state))

    def _conclude(self, stored: StoredState) -> None:
        """What the row says of a commit that was not answered. Nobody can commit under the old version any more."""
        if self.outcome is not Outcome.UNKNOWN:
            return
        is_newest = stored.instance_version == self.instance_version and self.phase is not Phase.FENCED
        if stored.prepared_state == self.prepared_state:
            self.outcome = Outcome.COMMITTED
        elif is_newest and (not self._needs_keep or self._kept == self.prepared_state):
            # Nobody came in between, or our transaction is still undecided: no later state stands over ours.
            self.outcome = Outcome.ROLLED_BACK

    def _aborted(self, _: None) -> None:
        if self.row_version is not None:
            self._lost()
        else:
            self.phase = Phase.READY

    _HANDLERS: ClassVar[dict[type[Any], Callable[[DualWrite, Any], None]]] = {
        BeginTopic: _begun,
        AnnounceState: _announced,
        PrepareTopic: _prepared,
        HoldDatabase: _prepare_what_is_stored,
        StoreState: _stored,
        CommitDatabase: _database_committed,
        CompleteTopic: _completed,
        AbortTopic: _aborted,
        TakeOver: _taken_over,
        KeepTopic: _kept_topic,
        ReadState: _read,
    }

    # -- plans

    def _plan(self, *effects: Effect) -> None:
        assert not self._effects, "one plan at a time"
        assert self._under_way is None, "the last effect was not answered"
        self._effects.extend(effects)

    def _store(self) -> StoreState:
        return StoreState(StoredState(self.instance_version, self.prepared_state))

    def _write_nothing(self) -> None:
        self.outcome = Outcome.ROLLED_BACK
        self._plan(RollbackDatabase(), AbortTopic())

    def _lost(self) -> None:
        """Our producer, or what we know of the row, is not to be relied on: recovery from the beginning."""
        self._effects.clear()
        self._needs_keep, self._is_displaced = True, False
        if self.phase not in (Phase.IN_DOUBT, Phase.FENCED):
            self.phase = Phase.UNRECOVERED

    def _not_completed(self, effect: CompleteTopic, *, is_retriable: bool) -> None:
        self._attempt_count += 1
        if is_retriable and self._attempt_count < COMPLETE_ATTEMPTS_MAX:
            self._plan(effect)
            return
        self._round_count += 1
        gives_up = is_retriable or self._round_count >= ROUNDS_MAX
        if gives_up and self.phase is Phase.DECIDED:
            self._needs_keep = self._needs_keep or not is_retriable
            return
        self._lost()
        if not gives_up:
            # Fenced: by a newer instance, which has raised the version, or by somebody who has no say here.
            self._attempt_count = 0
            self._plan(TakeOver(self._expected_version))

    def _fence(self) -> None:
        self._effects.clear()
        self.phase = Phase.FENCED
        if self.outcome is Outcome.UNKNOWN:
            self._plan(ReadState())

    def _refuse_fenced(self) -> None:
        if self.phase is Phase.FENCED:
            raise IllegalState("a newer instance with this transactional id took over")
