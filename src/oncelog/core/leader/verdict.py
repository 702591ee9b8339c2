"""What a partition answers when it is asked whether something may be appended.

Protocol errors are values here: a refusal names Kafka's code and says in words what was wrong.
"""

from __future__ import annotations

from oncelog.core.leader.guards import Guard
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Append:
    """Nothing stands against it: append, and tell `Partition.appended` in the same step."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """One of the producer's last five batches again: answer success with these offsets, append nothing.

    The reply has to wait until the high watermark reaches `end_offset`: the original may not be synced yet.
    `timestamp` (ms) is the stored batch's; Kafka answers it as LogAppendTimeMs whatever the topic's timestamp type.
    """

    base_offset: int
    last_offset: int
    timestamp: int

    @property
    def end_offset(self) -> int:
        """The offset after the original batch."""
        return self.last_offset + 1


@dataclass(frozen=True, slots=True)
class AskCoordinator:
    """The transaction coordinator must first say that the partition belongs to the transaction (KIP-890).

    `add`: it should add the partition (clients of the new protocol), else only verify. Once it agreed, ask the
    partition again with `guard`; the guard is void if a marker ended the transaction meanwhile.
    """

    guard: Guard
    transactional_id: str
    producer_id: int
    producer_epoch: int
    add: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """Append nothing and answer this error; `message` is for the reply's ErrorMessage and for logs.

    `is_before_log`: Kafka finds it before it looks into the log, and its reply has no log start offset (kafka-notes P3).
    """

    error_code: ErrorCode
    message: str
    is_before_log: bool = False


APPEND = Append()
