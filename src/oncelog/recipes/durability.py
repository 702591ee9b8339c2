"""Settings of databases that decide whether a commit that was acknowledged stays: what is refused, with the way out.

The database's commit is the decision, and the topic is completed behind it. A commit that is lost to a power cut afterwards
leaves records without rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.errors import ConfigurationError

POSTGRESQL = ("synchronous_commit", "fsync", "full_page_writes")
SELECT_POSTGRESQL = f"SELECT {', '.join(f'current_setting({name!r})' for name in POSTGRESQL)}"
# In force until the transaction ends, whatever the session was told meanwhile (SET LOCAL synchronous_commit = off).
FORCE_POSTGRESQL = (
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, true)"
)
MYSQL = ("innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog")
SELECT_MYSQL = f"SELECT {', '.join(f'@@{name}' for name in MYSQL)}"
MYSQL_SYNCED = (1, 3)  # innodb_flush_log_at_trx_commit: at every commit (3: MariaDB's, at the prepare too)
SQLITE_FULL, SQLITE_EXTRA = 2, 3
SQLITE_IS_IN_MEMORY = "SELECT 1 FROM pragma_database_list WHERE name = 'main' AND file = ''"


def check_postgresql(values: Sequence[str]) -> None:
    """`values` of POSTGRESQL, in order. Raises ConfigurationError."""
    settings = dict(zip(POSTGRESQL, values, strict=True))
    if settings["synchronous_commit"] == "off":
        raise ConfigurationError(
            "synchronous_commit=off: a commit that PostgreSQL acknowledged could be lost after the topic was completed; set it "
            "to on for this role, database or connection (options=-csynchronous_commit=on)"
        )
    if settings["fsync"] == "off":
        raise ConfigurationError("fsync=off: PostgreSQL may lose what it acknowledged, and the rest; set it to on")
    if settings["full_page_writes"] == "off":
        raise ConfigurationError(
            "full_page_writes=off: a page that a power cut left half written cannot be recovered, and with it what PostgreSQL "
            "acknowledged; set it to on"
        )


def check_mysql(values: Sequence[int]) -> None:
    """`values` of MYSQL, in order. Where there is a binary log, it decides at a restart what was committed."""
    flushed, has_log, log_synced = (int(value) for value in values)
    if flushed not in MYSQL_SYNCED:
        raise ConfigurationError(
            f"innodb_flush_log_at_trx_commit={flushed}: it may lose what it acknowledged; set it to 1"
        )
    if has_log and log_synced != 1:
        raise ConfigurationError(f"sync_binlog={log_synced}: it may lose what it acknowledged; set it to 1")


def check_sqlite(synchronous: int, journal_mode: str, *, is_in_memory: bool) -> None:
    """Raises ConfigurationError. A database in memory ends with its process: nothing is promised of it."""
    if is_in_memory:
        return
    if journal_mode in ("off", "memory"):
        raise ConfigurationError(
            f"PRAGMA journal_mode = {journal_mode}: a process or a machine that dies in a commit leaves a damaged file; use WAL"
        )
    if synchronous < SQLITE_FULL:
        raise ConfigurationError("PRAGMA synchronous is less than FULL: SQLite may lose what it acknowledged")
    if journal_mode == "delete" and synchronous < SQLITE_EXTRA:
        raise ConfigurationError(
            "PRAGMA synchronous = FULL with journal_mode = DELETE: the deletion of the journal, which is the commit, is not "
            "synced; use EXTRA, or WAL"
        )
