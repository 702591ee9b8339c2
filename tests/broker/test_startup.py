"""A start whose sync fails, and what the next one may count on. Files are in memory."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from evidence.world.doors import SimRandom
from evidence.world.files import Fault, Keep, SimFiles, SimSyncer

from oncelog.broker import startup
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.errors import StorageError
from oncelog.host.tasks import Tasks
from oncelog.log.open_files import OpenFiles
from oncelog.wire.log_records.cluster_metadata import FeatureLevelRecord

DATA = "disk/data"


class Clock:
    """Stands still."""

    def now_ms(self) -> int:
        return 1_700_000_000_000


class Start:
    """The first steps of a start: the directory, whose it is, its metadata with a change."""

    def __init__(self, files: SimFiles, number: int) -> None:
        self.store = MetadataStore(
            OpenFiles(files), DATA, SimSyncer(), Clock(), Tasks(lambda _error: None), lambda: 1 << 20
        )
        self.parts: Any = SimpleNamespace(
            host=SimpleNamespace(files=files, random=SimRandom(number)),
            node=SimpleNamespace(
                data_directory=DATA, store=self.store, cluster_id="", node_id=1, configs_changed=lambda: None
            ),
            peers=SimpleNamespace(processes=SimpleNamespace(count=1)),
            metadata_leader=None,
            lock=None,
        )

    async def run(self, level: int) -> str:
        """The cluster's id."""
        await startup.take_lock(self.parts)
        await startup.read_meta_properties(self.parts)
        await startup.load_cluster_metadata(self.parts)
        async with self.store.changing():
            await self.store.append([FeatureLevelRecord(name="f", level=level, features_epoch=9)])
        return str(self.parts.node.cluster_id)


@pytest.mark.parametrize("operation", range(1, 26))
def test_whatever_sync_of_a_first_start_fails_the_second_ones_directory_survives_a_power_cut(operation: int) -> None:
    async def work(seed: int) -> None:
        files = SimFiles(seed)
        files.fail_at(operation, Fault.SYNC_ERROR)
        cluster_id = ""
        for number in range(3):
            try:
                cluster_id = await Start(files, number).run(7)
                break
            except StorageError:
                files.kill()
        assert cluster_id
        files.crash(Keep.NONE)
        start = Start(files, 9)
        assert await start.run(8) == cluster_id
        assert start.store.metadata.features["f"] == 8
        files.crash(Keep.NONE)
        start = Start(files, 10)
        await startup.read_meta_properties(start.parts)
        start.store.open(is_clean=False)
        assert (start.parts.node.cluster_id, start.store.metadata.features["f"]) == (cluster_id, 8)

    for seed in range(8):
        asyncio.run(work(seed))
