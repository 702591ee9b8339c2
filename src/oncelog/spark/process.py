"""The Python processes that Spark starts: how they are told from others, and what makes them quick.

Spark's daemon collects all garbage whenever a worker is done with a task, a plan or a commit (pyspark/daemon.py). A worker of
this format has 40,000 to 75,000 objects, nearly all of them modules: 30 to 60 ms of CPU, and four such workers take part in each
micro-batch. `gc.freeze` puts what is loaded out of the collector's sight; what comes later is collected as ever.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import stat
import sys
from collections.abc import Iterable

FREEZES_MAX = 4
"""Of one process: the first calls still import, and each freeze keeps the garbage of its moment for good."""
WORKER_FILES = range(3, 16)
"""Where a worker has its connection to Spark: it is made before anything else is opened."""
QUICK_ACKNOWLEDGEMENT: int | None = getattr(socket, "TCP_QUICKACK", None)  # Linux has it
_freeze_count = 0


def in_a_process_of_sparks() -> bool:
    """Whether this is a worker of PySpark's, which ends with an error."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return (getattr(spec, "name", None) or "").startswith("pyspark.")


def keep_what_is_loaded() -> None:
    """Said at the end of each of Spark's calls; does something for the first few, in a process of Spark's."""
    global _freeze_count
    if _freeze_count < FREEZES_MAX and in_a_process_of_sparks():
        _freeze_count += 1
        gc.freeze()


def acknowledge_at_once(files: Iterable[int] = WORKER_FILES) -> None:
    """Said where Spark's next words may be waiting for an acknowledgement of the last ones.

    Args:
        files: descriptors to look at; what is no TCP connection is left alone.
    """
    if QUICK_ACKNOWLEDGEMENT is None or not in_a_process_of_sparks():
        return
    for file in files:  # at each call: the kernel takes the option for a hint of the moment, and forgets it
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(file).st_mode):
                continue
            # Borrowed, never duplicated: `socket.fromfd` leaves its duplicate open where the descriptor is no socket.
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=file)
            try:
                connection.setsockopt(socket.IPPROTO_TCP, QUICK_ACKNOWLEDGEMENT, 1)
            finally:
                connection.detach()
