"""`python -m evidence.syscalls.broker_with_small_journal serve ...`: oncelog's own command, with a journal whose segments are
soon used again, and whose data files are synced often and few at a time."""

from __future__ import annotations

from evidence.crash.small_journal import small_journal
from oncelog.broker.partitions import journal_flusher
from oncelog.cli.main import main

DATA_SYNC_INTERVAL_S, SYNCED_TOGETHER_MAX = 0.2, 4

if __name__ == "__main__":
    journal_flusher.DATA_SYNC_INTERVAL_S = DATA_SYNC_INTERVAL_S
    journal_flusher.SYNCED_TOGETHER_MAX = SYNCED_TOGETHER_MAX
    with small_journal():
        main()
