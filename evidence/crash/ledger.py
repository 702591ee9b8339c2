"""What clients of the power-cut workload asked for and were told, and the promises that follow from it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Stage(Enum):
    """How far a transaction got, as its client knows."""

    OPEN = "open"
    ASKED = "asked"  # EndTxn was sent
    ENDED = "ended"  # and acknowledged


@dataclass
class Transaction:
    """One transaction. `records`: (partition, value), acknowledged or not; `identity`: id and epoch it runs under."""

    transactional_id: str
    identity: tuple[int, int]
    version: int
    commits: bool
    is_two_phase: bool = False
    stage: Stage = Stage.OPEN
    is_fenced: bool = False  # a newer instance was acknowledged
    values: list[tuple[str, str]] = field(default_factory=list)
    offsets: dict[tuple[str, str], int] = field(default_factory=dict)  # (group, partition): position
    acknowledged_offsets: dict[tuple[str, str], int] = field(default_factory=dict)
    has_acknowledged: bool = False


@dataclass
class Ledger:
    """Everything. Offsets are those that acknowledgements named."""

    records: dict[tuple[str, int], str] = field(default_factory=dict)  # acknowledged: (partition, offset): value
    transactions: list[Transaction] = field(default_factory=list)
    identities: dict[str, tuple[int, int]] = field(default_factory=dict)  # the newest acknowledged per id
    producer_ids: dict[int, str] = field(default_factory=dict)  # who was given which
    plain: dict[str, set[str]] = field(default_factory=dict)  # partition: values of no transaction, acknowledged
    topics: list[str] = field(default_factory=list)
    idempotent: dict[str, Any] = field(default_factory=dict)  # name: (identity, partition, value, sequence, offset)

    def snapshot(self) -> Ledger:
        copy: Ledger = pickle.loads(pickle.dumps(self))  # much faster than deepcopy, and it is made at every operation
        return copy
