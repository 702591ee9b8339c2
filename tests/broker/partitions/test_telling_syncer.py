"""Who counts on a file hears of every sync of it that fails, whoever asked for that."""

import asyncio

import pytest

from oncelog.broker.partitions.telling_syncer import TellingSyncer
from oncelog.errors import StorageError


class Syncer:
    def __init__(self, failure):
        self.failure, self.asked, self.is_closed = failure, [], False

    async def sync(self, files):
        self.asked.append(files)
        if self.failure is not None:
            raise self.failure

    def close(self):
        self.is_closed = True


def test_a_failure_is_told_before_who_asked_knows():
    failure, told = StorageError("no disk"), []
    syncer = TellingSyncer(Syncer(failure), lambda files, error: told.append((files, error)))

    async def work():
        with pytest.raises(StorageError):
            await syncer.sync(["names"])
        assert told == [(["names"], failure)]

    asyncio.run(work())


def test_what_succeeds_is_passed_on():
    told, inner = [], Syncer(None)
    syncer = TellingSyncer(inner, lambda *given: told.append(given))
    asyncio.run(syncer.sync(["names"]))
    syncer.close()
    assert (inner.asked, told, inner.is_closed) == ([["names"]], [], True)
