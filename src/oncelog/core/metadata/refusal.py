"""Why a request about metadata is not done: the answer of every decision here that has none of its own."""

from __future__ import annotations

from oncelog.errors import ErrorCode
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


class ChangeTimedOut(Exception):
    """The turn to change the cluster's metadata did not come in time: nothing was changed, and nothing will be."""


def limit_refusal(limit: str, count_max: int, what: str) -> Refusal:
    """The refusal of one more than `limit` allows."""
    return Refusal(ErrorCode.POLICY_VIOLATION, f"There would be more than {count_max} {what} ({limit}).", limit)
