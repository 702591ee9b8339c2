"""What a failed sync leaves behind: pages that the kernel takes for saved, and that are not on the disk.

No later sync would write them, yet a restarted process still reads them; so recovery would make readable what the next
power cut takes back. A marker file stands for that: it needs no sync itself, since it lives exactly as long as those
pages do. The next recovery writes everything anew that was not known to be synced, and removes it. Of partitions that are
synced many at once one file in the data directory has the names.

A process that is killed between the failure and its marker leaves none. So every recovery after a crash writes the batches
and snapshots above the recovery point once more into their files (`write_again`), and its own sync tells the truth about them.

The same goes for names: a failed sync of the data directory may have dropped the name of any partition that was made before it,
also of one that nobody wrote to and that has no marker. A start after a crash makes those names again (`make_names_again`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from oncelog.errors import StorageError
from oncelog.log.files import File, Files
from oncelog.log.leftovers import base_offset_of

MARKER = "sync-failed"
MOVED_DIRECTORY = ".moved-to-be-named-again"  # there for as long as a start takes, and after one that was cut short
ANEW_SUFFIX = ".anew"
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
    """The sync went well, of a partition or of those that a data directory has a list of. Raises StorageError; then the next
    recovery writes anew what need not be."""
    files.remove(f"{directory}/{MARKER}")


def expect_failed_syncs(files: Files, data_directory: str, names: Iterable[str]) -> None:
    """The same for the partitions whose directories have these names, in one file, in the place of an earlier list: that sync
    went well.

    A marker in each that comes and goes costs a start of thousands most of its time: ext4 looks for a free inode past each
    that was removed in the last minutes. Raises StorageError.
    """
    file = files.open(f"{data_directory}/{MARKER}")
    try:
        file.truncate(0)
        file.write_at(0, "\n".join(names).encode())
    finally:
        file.close()


def note_expected(files: Files, data_directory: str) -> None:
    """Leave the marker in each partition of an `expect_failed_syncs` that nobody has forgotten. Raises StorageError."""
    path = f"{data_directory}/{MARKER}"
    for name in files.read_whole(path).decode(errors="replace").splitlines() if files.exists(path) else ():
        if files.exists(directory := f"{data_directory}/{name}"):
            expect_failed_sync(files, directory)


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


def make_names_again(files: Files, data_directory: str, names: Sequence[str]) -> None:
    """Have the names of these directories on the disk, whatever became of earlier syncs: durable on return.

    Each is moved into a directory of this function's and back: what was never changed, no sync would write. Where the power
    cuts that short, `bring_back` finds them. Raises StorageError.
    """
    if not names:
        return
    moved = f"{data_directory}/{MOVED_DIRECTORY}"
    if files.exists(moved):
        # Its own name may be what an earlier start failed to sync, and what is moved into it would be lost with it. It is not
        # removed: where the sync of a way back failed, the disk has that directory here.
        files.rename(moved, f"{moved}{ANEW_SUFFIX}")
        files.rename(f"{moved}{ANEW_SUFFIX}", moved)
    files.make_directory(moved)
    files.sync_directory(data_directory)
    for name in names:
        files.rename(f"{data_directory}/{name}", f"{moved}/{name}")
        files.rename(f"{moved}/{name}", f"{data_directory}/{name}")
    files.sync_directory(moved)
    files.sync_directory(data_directory)
    for each in (moved, f"{moved}{ANEW_SUFFIX}"):
        if files.exists(each):
            files.remove_directory(each)


def bring_back(files: Files, data_directory: str) -> None:
    """Give the directories their names that an earlier `make_names_again` had moved. Raises StorageError."""
    for moved in (f"{data_directory}/{MOVED_DIRECTORY}", f"{data_directory}/{MOVED_DIRECTORY}{ANEW_SUFFIX}"):
        for name in files.list(moved) if files.exists(moved) else ():
            if files.exists(path := f"{data_directory}/{name}"):
                raise StorageError(
                    f"{path} and {moved}/{name} are both there: move away the one that is older, and start again"
                )
            files.rename(f"{moved}/{name}", path)
