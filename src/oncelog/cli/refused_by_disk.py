"""What a person can do where the system refuses what a start or a recovery does with a data directory."""

from __future__ import annotations

import errno

_FULL, _FORBIDDEN = (errno.ENOSPC, errno.EDQUOT), (errno.EACCES, errno.EPERM)


def way_out(error: BaseException, again: str) -> str:
    """Where the disk is full (a start writes a few files anew), or a right is missing; "" where it is something else. `again` is
    what to do then."""
    cause = error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    if number in _FULL:
        return (
            "make room on that disk, not in this directory, where nothing may be deleted by hand (a few MiB; after a crash at "
            f"most what oncelog.journal.* has), {again}"
        )
    if number in _FORBIDDEN:
        return (
            "all of a data directory must be the user's that the broker runs as, with the rights to read and write its files and "
            f"to enter its directories: `chown -R USER DATA_DIR` and `chmod -R u+rwX DATA_DIR`, or be that user; then {again}"
        )
    return ""
