"""What an interrupted run can leave in a partition's directory, put right before anything is read.

As Apache Kafka does: `.deleted` files go; `.cleaned` files are unfinished and go, with every `.swap` from the same point
on; other `.swap` files are finished and take the place of what they replace; indexes without a log go, unless that log was
synced: then it is what is missing. Ours: `.tmp`.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.log.batch_header import WALK_SIZE_BYTES, batch_at
from oncelog.log.batch_scan import Scan
from oncelog.log.files import Files

DELETED_DIRECTORY_SUFFIX = "-delete"  # of a partition's, until its files are removed
STRAY_SUFFIX = "-stray"  # of one that belongs to no topic, and that a start moved aside
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
_PASSING_SUFFIXES = (".cleaned", ".swap", ".deleted", ".tmp")
_SWAPPED_SUFFIXES = (".log", *INDEX_SUFFIXES)


def base_offset_of(name: str) -> int | None:
    """The offset that a file name begins with; None for other files."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def not_of_its_name(files: Files, directory: str) -> str:
    """A segment that begins below the offset that it is named after: a copy that was put there; what to say of it, "" where there
    is none. Raises StorageError."""
    for name in files.list(directory):
        base_offset = base_offset_of(name) if name.endswith(".log") else None
        if base_offset:
            file = files.open(f"{directory}/{name}", create=False)
            first = batch_at(file.read_at(0, WALK_SIZE_BYTES), 0, 0)
            file.close()
            if first is not None and first.base_offset < base_offset:
                begins = f"it begins with offset {first.base_offset}"
                return f"{directory}/{name} is too much ({begins}, as no file of that name does): move it away"
    return ""


def put_right(files: Files, directory: str, synced: range = range(0)) -> bool:
    """Remove or finish what was left over; True when anything changed (not all names are synced yet). `synced`: the offsets that
    are kept and known to be on the disk.

    A start may itself be interrupted by a power cut, which keeps any of its changes that were not synced; so what decides
    is synced before what follows from it (see `segment_swap`).
    """
    names = files.list(directory)
    if not any(name.endswith(_PASSING_SUFFIXES) for name in names) and not _orphans(names, synced):
        return False  # nearly every directory, and a start looks at all of them
    cleaned = [base for name in names if name.endswith(".cleaned") and (base := base_offset_of(name)) is not None]
    swaps = [name for name in names if name.endswith(".swap")]
    unfinished = []
    if cleaned:
        # All .cleaned files of a segment become .swap before anything is replaced: these were not all renamed.
        unfinished = [name for name in swaps if (base_offset_of(name) or 0) >= min(cleaned)]
        swaps = [name for name in swaps if name not in unfinished]
    _remove_all(files, directory, unfinished)
    spans = [_span(files, directory, name) for name in swaps if name.endswith(".log.swap")]
    if spans:
        # Killed before its sync, the process that announced them may have left names that only it saw.
        files.sync_directory(directory)
    names = _taken_back(files, directory, spans, names)
    doomed = [name for name in names if name.endswith((".deleted", ".cleaned", ".tmp"))]
    for name in doomed:
        files.remove(f"{directory}/{name}")
    _remove_all(files, directory, _replaced_by(spans, files.list(directory)))
    for name in swaps:
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix('.swap')}")
    orphans = _orphans(files.list(directory), synced)
    for name in orphans:
        files.remove(f"{directory}/{name}")
    return bool(doomed or unfinished or swaps or orphans)


def _orphans(names: Sequence[str], synced: range) -> list[str]:
    """Indexes without a log, which nobody will put back."""
    logs = {name for name in names if name.endswith(".log")}
    return [
        name
        for name in names
        if name.endswith(INDEX_SUFFIXES)
        and name.partition(".")[0] + ".log" not in logs
        and (base := base_offset_of(name)) is not None
        and base not in synced
    ]


def _remove_all(files: Files, directory: str, names: Sequence[str]) -> None:
    for name in names:
        files.remove(f"{directory}/{name}")
    if names:
        files.sync_directory(directory)


def _taken_back(files: Files, directory: str, spans: Sequence[range], names: Sequence[str]) -> list[str]:
    """Give what finished segments replace its old names back: the swap may end here because their sync failed.

    The disk has then lost some of the renames for good: removing the new name would remove nothing there, and after a
    power cut the old one would lie in the middle of the finished segment. The old names are removed next, and synced.
    """
    found = list(names)
    for name in names:
        old_name = name.removesuffix(".deleted")
        if old_name != name and old_name not in found and _replaced_by(spans, (old_name,)):
            files.rename(f"{directory}/{name}", f"{directory}/{old_name}")
            found[found.index(name)] = old_name
    return found


def _replaced_by(spans: Sequence[range], names: Sequence[str]) -> list[str]:
    """The files whose place finished segments take."""
    return [
        name
        for name in names
        if name.endswith(_SWAPPED_SUFFIXES)
        and (base := base_offset_of(name)) is not None
        and any(base in span for span in spans)
    ]


def _span(files: Files, directory: str, log_swap_name: str) -> range:
    """The offsets of a finished segment."""
    first = base_offset_of(log_swap_name)
    assert first is not None, log_swap_name
    file = files.open(f"{directory}/{log_swap_name}", create=False)
    end_offset = first + 1
    for batch in Scan(file, 0, file.size(), check_crc=False):
        end_offset = batch.end_offset
    file.close()
    return range(first, end_offset)
