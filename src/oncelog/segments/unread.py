"""What could not be read: it is neither empty nor damaged, and nothing is concluded from it."""

from __future__ import annotations

from oncelog.core.reconciliation.findings import UNREAD, Finding
from oncelog.errors import StorageError

_ASK_ANOTHER = "no command: run this as a user who may read it, such as the broker's"


def unread(error: StorageError, file: str, directory: str) -> Finding:
    """Say so. The error names the file and why."""
    may_not = isinstance(error.__cause__, PermissionError)
    text = f"{error}: nothing is concluded from it"
    return Finding(UNREAD, text, directory, file=file, repair=_ASK_ANOTHER if may_not else "")


def is_gone(error: StorageError) -> bool:
    """Whether it is not there any more, as files of a running broker may be by then."""
    return isinstance(error.__cause__, FileNotFoundError)
