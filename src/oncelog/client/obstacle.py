"""What keeps a member out of its group: for good, or while it has not the right.

A refused member goes on asking, about once a second (`retry_backoff_max_ms`), with what it holds: where its session has not
run out meanwhile it reads on at its places, else it hears that it was put out, and joins anew.
"""

from __future__ import annotations

from oncelog.errors import ErrorCode, KafkaError

_RIGHTS = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


def rights_may_come(error: KafkaError) -> bool:
    """Whether somebody may give the right that is missing."""
    return error.code in _RIGHTS


class Obstacle:
    """Of one member. Polls raise it while it stands; who polls on and on waits for the next answer between."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self._is_told = False

    @property
    def is_final(self) -> bool:
        """Whether it stands for good: nobody needs to be asked again."""
        return self.error is not None and not rights_may_come(self.error)

    @property
    def is_known(self) -> bool:
        """Whether the application has heard the newest answer, and another one may be waited for."""
        return self.error is not None and self._is_told and not self.is_final

    def met(self, error: KafkaError) -> None:
        """The coordinator said so, or said so again."""
        if not self.is_final:
            self.error, self._is_told = error, False

    def passed(self) -> bool:
        """Something else was heard, or nothing is asked any more. Whether there was one: who waits may go on."""
        if self.error is None or self.is_final:
            return False
        self.error = None
        return True

    def raise_error(self) -> None:
        """Where it stands."""
        if self.error is not None:
            self._is_told = True
            raise self.error
