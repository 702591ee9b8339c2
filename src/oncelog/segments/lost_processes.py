"""Directories of a broker's processes (`oncelog serve --processes N`) that had data and are gone, as the next start would say."""

from __future__ import annotations

from oncelog.core.processes.process_plan import begun_mark, directory_of, move_under_way
from oncelog.log.checkpoint_files import RECOVERY_POINTS
from oncelog.segments.source import Source

META = "meta.properties"


def lost_processes(source: Source, root: str) -> dict[str, str]:
    """Of the data directory of the first process: each that is gone, and what to say of it. Raises StorageError."""
    names = source.list(root)
    prefix = begun_mark("", 0).removeprefix("/").removesuffix("0")
    numbers = sorted(int(each.removeprefix(prefix)) for each in names if _is_mark(each, prefix))
    if META not in names or not numbers or source.exists(move_under_way(root)):
        return {}  # the next start ends the move
    own = {line.strip() for line in source.read_whole(f"{root}/{META}").decode("utf-8", "replace").splitlines()}
    found: dict[str, str] = {}
    for number in numbers:
        path, mark = directory_of(root, number), begun_mark(root, number)
        if any(source.exists(f"{path}/{each}") for each in (META, RECOVERY_POINTS)):
            continue
        if f"cluster.id={source.read_whole(mark).decode('utf-8', 'replace').strip()}" in own:
            found[path] = (
                f"is gone, with the partitions that process {number} leads: put it back; if it is lost, remove {mark}, and they"
                " begin anew, empty (docs/processes.md)"
            )
    return found


def _is_mark(name: str, prefix: str) -> bool:
    number = name.removeprefix(prefix)
    return number != name and number.isascii() and number.isdigit()
