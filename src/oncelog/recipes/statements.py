"""The SQL of `kafka_transaction_state` for adapters that speak it themselves (PostgreSQL's %s; SQLite's ?)."""

from __future__ import annotations

from oncelog.core.two_phase.dual_write import StoredState
from oncelog.recipes import durability
from oncelog.recipes.database import TABLE
from oncelog.types import PreparedTxnState

CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (transactional_id varchar(255) PRIMARY KEY, "
    "prepared_transaction_state varchar(64) NOT NULL, instance_version bigint NOT NULL)"
)
TAKE_OVER = (
    f"INSERT INTO {TABLE} (transactional_id, prepared_transaction_state, instance_version) VALUES (%s, '', 1) "  # noqa: S608
    f"ON CONFLICT (transactional_id) DO UPDATE SET instance_version = {TABLE}.instance_version + 1 "
    "RETURNING instance_version"
)
TAKE_OVER_EXPECTED = (
    f"UPDATE {TABLE} SET instance_version = instance_version + 1 "  # noqa: S608
    "WHERE transactional_id = %s AND instance_version = %s RETURNING instance_version"
)
STORE = (
    f"UPDATE {TABLE} SET prepared_transaction_state = %s "  # noqa: S608
    "WHERE transactional_id = %s AND instance_version = %s"
)
READ = f"SELECT instance_version, prepared_transaction_state FROM {TABLE} WHERE transactional_id = %s"  # noqa: S608
READ_ALL = f"SELECT transactional_id, instance_version, prepared_transaction_state FROM {TABLE}"  # noqa: S608

# PostgreSQL: whoever stops (a suspended process, a lost machine) between this statement and its COMMIT holds the row, and
# the newer instance would wait for ever. The server ends such a session instead, and with it the transaction.
STORE_POSTGRESQL = (
    f"{STORE} AND set_config('idle_in_transaction_session_timeout', %s, true) IS NOT NULL "
    f"AND {durability.FORCE_POSTGRESQL} IS NOT NULL"
)
HOLD = "SELECT 1"  # the limit begins anew behind each statement


def stored_state(instance_version: int, prepared_state: str) -> StoredState:
    """A row's two values."""
    return StoredState(int(instance_version), PreparedTxnState(prepared_state))
