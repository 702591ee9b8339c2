"""Checkpoint files: what has not changed is not written, what is written beside the loop never undoes a newer one."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.files import Fault, SimFiles, SimSyncer

from oncelog.broker.partitions.checkpoint_file import CheckpointFile
from oncelog.errors import StorageError
from oncelog.host.worker import InlineWorker
from oncelog.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def made() -> tuple[SimFiles, CheckpointFile]:
    files = SimFiles()
    files.make_directory("d")
    return files, CheckpointFile(files, "d", "offsets")


def test_what_is_written_is_read():
    files, checkpoint = made()
    assert checkpoint.read() == {}
    checkpoint.write({T0: 5, T1: 0})
    assert CheckpointFile(files, "d", "offsets").read() == {T0: 5, T1: 0}
    count = files.operation_count
    checkpoint.write({T1: 0, T0: 5})
    assert files.operation_count == count, "nothing has changed"


def test_damage_is_named():
    files, checkpoint = made()
    checkpoint.write({T0: 5})
    files.replace_whole("d/offsets", b"0\nmany\n")
    with pytest.raises(StorageError, match=r"d/offsets is damaged"):
        checkpoint.read()


def test_beside_the_loop():
    files, checkpoint = made()

    async def main() -> None:
        assert await checkpoint.write_aside({T0: 7}, InlineWorker(), SimSyncer())
        files.crash()
        assert CheckpointFile(files, "d", "offsets").read() == {T0: 7}

    asyncio.run(main())


class SlowWorker(InlineWorker):
    """Others have their turn while it works."""

    async def run(self, work, *, bytes_per_second=float("inf")):
        result = await super().run(work)
        await asyncio.sleep(0)
        return result


def test_a_newer_write_wins():
    _, checkpoint = made()

    async def main() -> bool:
        aside = asyncio.get_running_loop().create_task(checkpoint.write_aside({T0: 1}, SlowWorker(), SimSyncer()))
        await asyncio.sleep(0)
        checkpoint.write({T0: 2})
        return await aside

    assert asyncio.run(main()) is False
    assert checkpoint.read() == {T0: 2}


def test_a_failure_is_tried_again():
    files, checkpoint = made()
    files.fail_at(1, Fault.IO_ERROR)
    with pytest.raises(StorageError):
        checkpoint.write({T0: 1})
    checkpoint.write({T0: 1})
    assert checkpoint.read() == {T0: 1}
