"""A syncer whose calls are timed and counted: LogFlushRateAndTimeMs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial

from oncelog.broker.metrics.metrics import Metrics
from oncelog.host.syncer import Syncer
from oncelog.log.files import Syncable


class MeasuredSyncer:
    """Passes on to `syncer`."""

    def __init__(self, syncer: Syncer, metrics: Metrics) -> None:
        self._syncer = syncer
        self._time_ms = metrics.histogram("sync_ms")
        self._files = metrics.histogram("sync_files")

    def sync(self, files: Sequence[Syncable]) -> Awaitable[None]:
        """As the syncer's."""
        self._files.observe(len(files))
        begun = asyncio.get_running_loop().time()
        done = self._syncer.sync(files)
        if isinstance(done, asyncio.Future):
            done.add_done_callback(partial(self._ended, begun))
            return done
        return self._timed(done, begun)

    async def _timed(self, done: Awaitable[None], begun: float) -> None:
        try:
            await done
        finally:
            self._ended(begun, None)

    def _ended(self, begun: float, _done: object) -> None:
        self._time_ms.observe((asyncio.get_running_loop().time() - begun) * 1000)

    def close(self) -> None:
        """As the syncer's."""
        self._syncer.close()
