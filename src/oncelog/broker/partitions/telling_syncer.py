"""A syncer that tells of each failure before whoever asked knows of it.

After a failed sync no later one of the same file tells the truth: the system has called its pages clean. So whoever else
counts on that file has to hear of it (`JournalFlusher.sync_failed`), and no caller can forget to say so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from oncelog.errors import StorageError
from oncelog.host.syncer import Syncer
from oncelog.log.files import Syncable


class TellingSyncer:
    """Passes on to `syncer`."""

    def __init__(self, syncer: Syncer, failed: Callable[[Sequence[Syncable], StorageError], None]) -> None:
        self._syncer, self._failed = syncer, failed

    def sync(self, files: Sequence[Syncable]) -> Awaitable[None]:
        """As the syncer's."""
        return self._told(self._syncer.sync(files), files)

    async def _told(self, done: Awaitable[None], files: Sequence[Syncable]) -> None:
        try:
            await done
        except StorageError as error:
            self._failed(files, error)
            raise

    def close(self) -> None:
        """As the syncer's."""
        self._syncer.close()
