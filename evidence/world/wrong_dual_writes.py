"""Dual writes with a rule taken out: every check of dual writes must find each of them."""

from __future__ import annotations

from typing import ClassVar

from oncelog.core.two_phase import dual_write as core
from oncelog.core.two_phase.dual_write import DualWrite, Outcome, Phase, StoredState
from oncelog.types import PreparedTxnState


class CompletesFirst(DualWrite):
    """The topic is completed before the database commits."""

    def _ask_to_commit(self) -> None:
        self._plan(core.CompleteTopic(self.prepared_state))

    def _completed(self, _: None) -> None:
        if self.phase is Phase.PREPARED:
            super()._ask_to_commit()
        else:
            super()._completed(None)

    def _database_committed(self, _: None) -> None:
        self.phase, self.outcome = Phase.READY, Outcome.COMMITTED

    _HANDLERS: ClassVar = {
        **DualWrite._HANDLERS,
        core.CompleteTopic: _completed,
        core.CommitDatabase: _database_committed,
    }


class CommitsBeforeItsRecords(DualWrite):
    """The database commits what was announced, while records are on their way."""

    def _stored(self, is_ours: bool) -> None:
        if is_ours:
            self._ask_to_commit()
        else:
            super()._stored(is_ours)

    _HANDLERS: ClassVar = {**DualWrite._HANDLERS, core.StoreState: _stored}


class ReadsWithoutTakingOver(DualWrite):
    """Recovery reads at once: a commit in flight can still follow."""

    def recover(self) -> None:
        super().recover()
        if self._effects and isinstance(self._effects[-1], core.TakeOver):
            self._effects[-1] = core.KeepTopic()

    def _read(self, stored: StoredState) -> None:
        self.instance_version = self._expected_version = stored.instance_version
        super()._read(stored)

    _HANDLERS: ClassVar = {**DualWrite._HANDLERS, core.ReadState: _read}


class ReadsBeforeItFences(DualWrite):
    """The state is read before the older producer is fenced, and not looked at again."""

    def _taken_over(self, instance_version: int | None) -> None:
        if instance_version is not None and self._needs_keep:
            self.instance_version = self._expected_version = instance_version
            self._plan(core.ReadState(), core.KeepTopic())
        else:
            super()._taken_over(instance_version)

    def _read(self, stored: StoredState) -> None:
        if self._effects:
            self._stored_before = stored
        else:
            super()._read(stored)

    def _kept_topic(self, kept: PreparedTxnState) -> None:
        self._plan(core.CompleteTopic(self._stored_before.prepared_state))

    _HANDLERS: ClassVar = {
        **DualWrite._HANDLERS,
        core.TakeOver: _taken_over,
        core.ReadState: _read,
        core.KeepTopic: _kept_topic,
    }


class BelievesAFailedCommit(DualWrite):
    """An error of the commit is taken for a rollback."""

    def failed(self, *, is_retriable: bool = False, is_definite: bool = False) -> None:
        definite = is_definite or isinstance(self._under_way, core.CommitDatabase)
        super().failed(is_retriable=is_retriable, is_definite=definite)
