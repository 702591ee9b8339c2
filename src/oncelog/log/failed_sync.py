"""What a failed sync leaves behind: pages that the kernel takes for saved, and that are not on the disk.

No later sync would write them, yet a restarted process still reads them; so recovery would make readable what the next
power cut takes back. A marker file stands for that: it needs no sync itself, since it lives exactly as long as those
pages do. The next recovery writes everything anew that was not known to be synced, and removes it.

A process that is killed between the failure and its marker leaves none. So every recovery after a crash writes the batches
and snapshots above the recovery point once more into their files (`write_again`), and its own sync tells the truth about them.
"""

from __future__ import annotations

import contextlib

from oncelog.errors import StorageError
from oncelog.log.files import File, Files
from oncelog.log.leftovers import base_offset_of

MARKER = "sync-failed"
CHUNK_SIZE_BYTES = 1_048_576


def note_failed_sync(files: Files, directory: str) -> None:
    """Leave the marker; a disk that refuses even this says so at the next start."""
    with contextlib.suppress(StorageError):
        files.open(f"{directory}/{MARKER}").close()


def expect_failed_sync(files: Files, directory: str) -> None:
    """Leave the marker before a sync that must not fail unnoticed: a disk that refuses the sync may refuse the marker then.
    Raises StorageError."""
    files.open(f"{directory}/{MARKER}").close()


def forget_failed_sync(files: Files, directory: str) -> None:
    """The sync went well. Raises StorageError; then the next recovery writes anew what need not be."""
    files.remove(f"{directory}/{MARKER}")


def rewrite_after_failed_sync(files: Files, directory: str, known_synced_offset: int) -> bool:
    """Where the marker is: write every file anew that may hold unsynced bytes. True when that was needed.

    Segments that end at or below `known_synced_offset` are left alone. Raises StorageError; then the marker stays.
    """
    if not files.exists(f"{directory}/{MARKER}"):
        return False
    names = [name for name in files.list(directory) if name != MARKER and not name.endswith(".tmp")]
    bases = [base for name in names if name.endswith(".log") and (base := base_offset_of(name)) is not None]
    first = max((base for base in bases if base <= known_synced_offset), default=0)
    for name in names:
        base = base_offset_of(name)
        if base is None or base >= first:
            _write_anew(files, f"{directory}/{name}")
    files.sync_directory(directory)
    files.remove(f"{directory}/{MARKER}")
    return True


def _write_anew(files: Files, path: str) -> None:
    source, copy = files.open(path, create=False), files.open(f"{path}.tmp")
    try:
        copy.truncate(0)
        position = 0
        while data := source.read_at(position, CHUNK_SIZE_BYTES):
            copy.write_at(position, data)
            position += len(data)
        copy.sync()
    finally:
        source.close()
        copy.close()
    files.rename(f"{path}.tmp", path)


def write_again(file: File, position: int = 0, end_position: int | None = None) -> None:
    """Write the bytes of [position, end_position) over themselves, so that the next sync of `file` covers them: whatever
    the power cuts short leaves what was there or the same. Up to the file's end by default. Raises StorageError."""
    end_position = file.size() if end_position is None else end_position
    while position < end_position:
        data = file.read_at(position, min(CHUNK_SIZE_BYTES, end_position - position))
        if not data:
            return
        file.write_at(position, data)
        position += len(data)
