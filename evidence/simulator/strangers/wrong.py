"""What a wrong request is: a message, the version it is sent in, and the answers that refuse it.

Everything in it that a broker could keep (names, records, metadata) begins with MARK: no file may ever hold that.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.errors import ErrorCode
from oncelog.wire.schema import Struct

MARK = "wrong-"
TOPIC = f"{MARK}topic"
GROUP = f"{MARK}group"
TRANSACTIONAL_ID = f"{MARK}id"
NOBODY = 2**40  # a producer id that was never given, an offset that was never reached
STRANGE, STRANGE_LARGE = "strange", "strange-large"  # topics of the strangers themselves
SMALL_MESSAGE_BYTES, LARGE_MESSAGE_BYTES = 2000, 2_000_000

# What a broker in trouble may answer to anybody, before it looks at what was asked.
TRANSIENT = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(frozen=True)
class Wrong:
    """One request that must be refused with one of `codes`."""

    name: str
    message: Struct
    version: int
    codes: frozenset[ErrorCode]


def wrong(name: str, message: Struct, version: int, *codes: ErrorCode) -> Wrong:
    """One of a table."""
    return Wrong(name, message, version, frozenset(codes))
