"""Dual writes with ZooKeeper through kazoo: znodes and state in one multi.

The state of each transactional id is a znode under `/kafka_transaction_state` (KIP-939's path); a write is conditional on
the znode's own version, so whatever an older instance still has in flight fails once the newer one has written there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote, unquote

from oncelog.core.two_phase.dual_write import StoredState
from oncelog.errors import missing
from oncelog.recipes.database import TABLE, NotCommitted, missing_table
from oncelog.types import PreparedTxnState

try:
    from kazoo.client import KazooClient, TransactionRequest
    from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError
except ImportError as error:
    raise missing("oncelog.recipes", error, kazoo="zookeeper") from error

ROOT = f"/{TABLE}"


class _Open:
    """A multi that is being put together."""

    def __init__(self, owner: ZooKeeperDatabase, handle: Any) -> None:
        self.handle = handle
        self._owner = owner

    def store(self, transactional_id: str, stored: StoredState) -> bool:
        found = self._owner.znode(transactional_id)
        if found is None or found[0].instance_version != stored.instance_version:
            return False
        self.handle.set_data(path_of(transactional_id), content_of(stored), version=found[1])
        return True

    def commit(self) -> None:
        for result in self.handle.commit():
            if isinstance(result, BaseException):
                raise NotCommitted(f"the multi was refused: {_reason(self.handle)}") from result

    def rollback(self) -> None:
        self.handle.operations.clear()


def _reason(handle: Any) -> str:
    return ", ".join(type(operation).__name__ for operation in handle.operations)


class ZooKeeperDatabase:
    """ZooKeeper; `handle` is kazoo's TransactionRequest (create, set_data, delete, check). The client stays yours."""

    errors: tuple[type[Exception], ...] = (KazooException, KazooTimeoutError)

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def migrate(self) -> None:
        """Create `/kafka_transaction_state` where it is missing."""
        self._client.ensure_path(ROOT)

    def begin(self) -> _Open:
        """An empty multi."""
        request: TransactionRequest = self._client.transaction()
        return _Open(self, request)

    def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """Raise the version."""
        while True:
            found = self.znode(transactional_id)
            if expected_version is not None and (found is None or found[0].instance_version != expected_version):
                return None
            try:
                if found is None:
                    self._client.create(path_of(transactional_id), content_of(StoredState(1, PreparedTxnState())))
                    return 1
                raised = StoredState(found[0].instance_version + 1, found[0].prepared_state)
                self._client.set(path_of(transactional_id), content_of(raised), version=found[1])
                return raised.instance_version
            except (BadVersionError, NodeExistsError):
                continue  # another instance came in between: look again
            except NoNodeError as error:
                if found is None:
                    raise missing_table() from error

    def znode(self, transactional_id: str) -> tuple[StoredState, int] | None:
        """The state, and ZooKeeper's version of its znode."""
        self._client.sync(ROOT)  # a follower may be behind
        try:
            content, stat = self._client.get(path_of(transactional_id))
        except NoNodeError:
            return None
        return _state_of(content), int(stat.version)

    def read(self, transactional_id: str) -> StoredState | None:
        """The committed state."""
        found = self.znode(transactional_id)
        return None if found is None else found[0]

    def read_all(self) -> Mapping[str, StoredState]:
        """Every committed state."""
        try:
            names = [unquote(name) for name in self._client.get_children(ROOT)]
        except NoNodeError as error:
            raise missing_table() from error
        return {name: state for name in names if (state := self.read(name)) is not None}

    def close(self) -> None:
        """Nothing: the client is yours."""


def path_of(transactional_id: str) -> str:
    """The znode of an id; '/' and '.' mean something else in a path."""
    return f"{ROOT}/{quote(transactional_id, safe='').replace('.', '%2E')}"


def content_of(stored: StoredState) -> bytes:
    """The znode's data."""
    return f"{stored.instance_version} {stored.prepared_state}".encode()


def _state_of(content: bytes) -> StoredState:
    version, _, prepared_state = content.decode().partition(" ")
    return StoredState(int(version), PreparedTxnState(prepared_state))
