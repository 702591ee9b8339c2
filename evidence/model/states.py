"""The states of the explored system, as values: equal states are the same state, however they were reached.

A coordinator, one leader per partition and clients speak through a network that neither keeps the order of messages nor
says when one arrives; a message that is never delivered is one that is delivered last. Everything is a tuple, so a step
of one component is a function of its own state and one message, and is worked out only once.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from oncelog.core.decision import MarkersToWrite
from oncelog.core.transactions.transaction import TransactionRecord

TRANSACTIONAL_ID = "t"
Identity = tuple[int, int]
NO_IDENTITY: Identity = (-1, -1)


class Kind(IntEnum):
    """What a message is."""

    INIT = 0
    ADD = 1  # AddPartitionsToTxn v3, by a client of the old protocol
    PRODUCE = 2
    END = 3
    REPLY = 4
    ASK = 5  # a leader's AddPartitionsToTxn v5
    ANSWER = 6
    MARKER = 7
    WRITTEN = 8


class Tag(NamedTuple):
    """Whose record it is: the client, and the number of its transaction."""

    client: int
    transaction: int


class Message(NamedTuple):
    """One message. `number` is the client's count of its requests: a reply to an older one is no longer read."""

    kind: Kind
    client: int = -1
    number: int = -1
    partition: int = -1
    identity: Identity = NO_IDENTITY
    sequence: int = -1
    commit: bool = False
    keep: bool = False
    tag: Tag | None = None
    error: int = 0
    ongoing: Identity = NO_IDENTITY
    guard: int = -1
    waiting: Message | None = None  # the Produce that a leader asked for
    markers: MarkersToWrite | None = None
    prepared: TransactionRecord | None = None
    copy: int = 0


class Entry(NamedTuple):
    """One batch of a partition: a record of a client, or a marker (`commit` is not None)."""

    identity: Identity
    sequence: int = -1
    tag: Tag | None = None
    commit: bool | None = None
    coordinator_epoch: int = -1


class Verification(NamedTuple):
    """A guard that was handed out: `number` tells it from every other of its partition."""

    number: int
    identity: Identity
    lowest_sequence: int


class Leader(NamedTuple):
    """One partition: its log, and what it knows only while it lives."""

    log: tuple[Entry, ...] = ()
    verifications: tuple[Verification, ...] = ()
    opened_by: tuple[tuple[int, int], ...] = ()  # producer id -> guard
    guard_count: int = 0


class Pending(NamedTuple):
    """A decision that is appended and not synced: a crash may lose it or not."""

    record: TransactionRecord
    reply: Message | None
    markers: tuple[MarkersToWrite, ...]


class Coordinator(NamedTuple):
    """One `__transaction_state` partition. `decision_count` is its clock: no two records are the same."""

    record: TransactionRecord | None = None
    pending: tuple[Pending, ...] = ()
    unwritten: frozenset[int] = frozenset()
    coordinator_epoch: int = 0
    decision_count: int = 0
    producer_id_count: int = 0


class Ended(NamedTuple):
    """One transaction of a client: what it asked for, and whether that was acknowledged."""

    asked: bool | None = None  # commit, abort, nothing yet
    is_acknowledged: bool = False


class Client(NamedTuple):
    """One producer. `request` is what it waits for; `stored` the prepared state that the database holds (KIP-939)."""

    identity: Identity = NO_IDENTITY
    request: Message | None = None
    request_count: int = 0
    is_dead: bool = False
    must_abort: bool = False
    added: frozenset[int] = frozenset()
    produced: tuple[int, ...] = ()
    sequences: tuple[int, ...] = (0, 0)
    transactions: tuple[Ended, ...] = (Ended(),)
    kept: Identity = NO_IDENTITY  # the transaction that a keep-init took over


class Limits(NamedTuple):
    """What may still happen."""

    requests: int = 8
    timeouts: int = 1
    coordinator_crashes: int = 1
    leader_crashes: int = 0


class World(NamedTuple):
    """The whole system. `stored`: the database's row, the identity of the transaction that is to be committed."""

    coordinator: Coordinator
    leaders: tuple[Leader, ...]
    clients: tuple[Client, ...]
    network: frozenset[Message]
    limits: Limits
    stored: Identity = NO_IDENTITY
    promises: frozenset[tuple[Identity, bool, Identity]] = frozenset()  # EndTxn: asked by, outcome, answered


class Rules(NamedTuple):
    """Which protocol is explored."""

    transaction_version: int
    two_phase: bool = False
    always_keeps: bool = True  # KIP-939's recipe: every instance begins with keepPreparedTxn
    transactions_max: int = 2
    partition_count: int = 2

    @property
    def is_new(self) -> bool:
        return self.transaction_version >= 2


def sent(network: frozenset[Message], message: Message) -> frozenset[Message]:
    """The network with one more message, which may be there already."""
    while message in network:
        message = message._replace(copy=message.copy + 1)
    return network | {message}
