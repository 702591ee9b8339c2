"""A request that a group answers with an error."""

from __future__ import annotations

from oncelog.errors import ErrorCode


class Refused(Exception):
    """The request's answer is an error."""

    def __init__(self, error_code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message
