"""One offset checkpoint of the data directory, replaced whole; what has not changed is not written again."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.errors import CorruptIndex, StorageError
from oncelog.host.syncer import Syncer
from oncelog.host.worker import Pace, Worker
from oncelog.log.checkpoint_files import offsets_from_bytes, offsets_to_bytes
from oncelog.log.files import DirectoryNames, Files
from oncelog.types import TopicPartition

ASIDE_SUFFIX = ".aside"


class DamagedCheckpoint(StorageError):
    """It can be read, and says nothing that can be understood."""


class CheckpointFile:
    """The checkpoint `name` in `directory`. At most one `write_aside` at a time; `write` may come between."""

    def __init__(self, files: Files, directory: str, name: str) -> None:
        self._files = files
        self._directory = directory
        self.path = f"{directory}/{name}"
        self._stored: bytes | None = None
        self._write_count = 0

    def exists(self) -> bool:
        """Whether there is one."""
        return self._files.exists(self.path)

    def read(self) -> dict[TopicPartition, int]:
        """What it holds; empty where there is none yet. Raises StorageError, DamagedCheckpoint."""
        if not self.exists():
            return {}
        try:
            return offsets_from_bytes(self._files.read_whole(self.path))
        except CorruptIndex as error:
            raise DamagedCheckpoint(f"{self.path} is damaged ({error})") from error

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Durably replace it, at once. Raises StorageError."""
        data = offsets_to_bytes(offsets)
        self._write_count += 1  # an earlier `write_aside` under way is out of date
        if data != self._stored:
            self._stored = None  # until it is known what the disk holds
            self._files.replace_whole(self.path, data)
            self._stored = data

    async def write_aside(self, offsets: Mapping[TopicPartition, int], worker: Worker, syncer: Syncer) -> bool:
        """The same without holding the loop; False where a `write` came between, which is the newer one.

        Raises StorageError; then the sync of the directory may be what failed.
        """
        data = offsets_to_bytes(offsets)
        if data == self._stored:
            return True
        begun_at = self._write_count
        aside = f"{self.path}{ASIDE_SUFFIX}"

        def prepare(_: Pace) -> None:
            file = self._files.open(aside)
            try:
                file.truncate(0)
                file.write_at(0, data)
                file.sync()
            finally:
                file.close()

        await worker.run(prepare)
        if self._write_count != begun_at:
            return False
        self._stored = None
        self._files.rename(aside, self.path)
        await syncer.sync([DirectoryNames(self._files, self._directory)])
        if self._write_count == begun_at:
            self._stored = data
        return True
