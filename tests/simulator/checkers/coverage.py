"""What a run reached: steps of the coordinator's table, and error codes that a broker gave (docs/simulator.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from oncelog.core.transaction import MAY_FOLLOW, TransactionState
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.transaction_state import TransactionRecord

TRANSITIONS = sorted(
    f"{before.name} -> {after.name}" for after, befores in MAY_FOLLOW.items() for before in sorted(befores)
)
# The codes that transactions meet (Kafka's), but for NETWORK_EXCEPTION, which only a client gives itself.
CODES = sorted(
    {
        *(
            1,
            2,
            3,
            5,
            6,
            7,
            10,
            12,
            14,
            15,
            16,
            17,
            18,
            19,
            20,
            21,
            22,
            24,
            25,
            27,
            29,
            30,
            31,
            33,
            34,
            35,
            42,
            43,
            45,
            46,
        ),
        *(
            47,
            48,
            49,
            50,
            51,
            52,
            53,
            55,
            56,
            58,
            59,
            69,
            74,
            75,
            76,
            78,
            82,
            87,
            88,
            89,
            90,
            95,
            96,
            100,
            105,
            113,
            120,
        ),
        *(128, 129, -1),
    }
)


def transitions_of(records: Iterable[TransactionRecord]) -> Iterator[str]:
    """Steps in a coordinator's log, each as often as it was taken."""
    states: dict[str, TransactionState] = {}
    for record in records:
        before = states.get(record.transactional_id)
        if before is not None:
            yield f"{before.name} -> {record.state.name}"
        states[record.transactional_id] = record.state


def names_of(codes: Iterable[int]) -> list[str]:
    """For people."""
    return [ErrorCode(code).name for code in codes]


def describe(transitions: Collection[str], codes: Collection[int]) -> Iterator[str]:
    """Lines: what was reached, and what was not."""
    missing = [each for each in TRANSITIONS if each not in transitions]
    yield f"steps of the coordinator's table: {len(TRANSITIONS) - len(missing)} of {len(TRANSITIONS)} reached"
    if missing:
        yield f"  not reached: {', '.join(missing)}"
    left = [code for code in CODES if code not in codes]
    yield f"error codes of transactions: {len(CODES) - len(left)} of {len(CODES)} given"
    if left:
        yield f"  not given: {', '.join(names_of(left))}"
