"""What the operating system lets this process have."""

from __future__ import annotations

import contextlib
import resource


def raise_open_files_limit() -> None:
    """As many open files as the system allows: by default a process gets fewer than a broker of many clients needs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # some systems name a hard limit and refuse it: then it stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
