"""Why a request about metadata is not done: the answer of every decision here that has none of its own."""

from __future__ import annotations

from oncelog.errors import ErrorCode, StorageError
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error code and the line that explains it; `limit` is the config key of the limit that was met, if one was.

    The other refusals say more, or something else: `leader.batch_checks.Refused` which records are at fault,
    `leader.verdict.Refuse` that a batch is not appended, `groups.consumer.change.Refused` ends a decision as an exception.
    """

    error_code: ErrorCode
    message: str
    limit: str = ""


class ChangeTimedOut(StorageError):
    """The turn to change the cluster's metadata did not come in time: nothing was changed, and nothing will be.

    What the broker changes on its own account meets it as it meets a disk that refuses, and tries again.
    """


NO_TURN = Refusal(
    ErrorCode.REQUEST_TIMED_OUT,
    "Other changes of the metadata took longer than request.timeout.ms; nothing was changed.",
)  # of a request that names no time itself


def limit_refusal(limit: str, count_max: int, what: str) -> Refusal:
    """The refusal of one more than `limit` allows."""
    return Refusal(ErrorCode.POLICY_VIOLATION, f"There would be more than {count_max} {what} ({limit}).", limit)
