"""What a power cut would leave of the journal: its durable entries, in the order in which a start reads them.

Only the bytes are shared with the broker (`oncelog.log.journal_entries`); which entries count, and what they make of a log,
is said here once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evidence.syscalls.world import Node, World
from oncelog.log.journal import CLOSED_FILE, FILE_PREFIX
from oncelog.log.journal_entries import (
    SEGMENT_HEADER_BYTES,
    Entry,
    Piece,
    SegmentHeader,
    entry_from_bytes,
    segment_header_from_bytes,
)

PartitionKey = tuple[bytes, int]  # topic id, partition


def is_segment(path: str) -> bool:
    """Whether a path below the data directory is of a segment."""
    return path.startswith(FILE_PREFIX) and path.removeprefix(FILE_PREFIX).isdigit()


class DurableSegment:
    """One file; `read` follows it as more of it becomes durable."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._version = -1
        self.header: SegmentHeader | None = None
        self.entries: list[Entry] = []
        self.end_position = 0

    def read(self) -> None:
        """Take over what has become durable."""
        node = self._node
        if node.durable_version == self._version:
            return
        self._version = node.durable_version
        header = segment_header_from_bytes(node.durable_data[:SEGMENT_HEADER_BYTES])
        if header is None or header != self.header:
            self.header, self.entries, self.end_position = header, [], SEGMENT_HEADER_BYTES
        while header is not None:
            entry = entry_from_bytes(node.durable_data, self.end_position, header.generation)
            if entry is None or entry.sequence != header.first_sequence + len(self.entries):
                return
            self.entries.append(entry)
            self.end_position = entry.end_position


@dataclass
class DurableEntries:
    """What a start after a power cut would find. `is_there`: logs are cut where it ends; `damage`: why it would be refused."""

    is_there: bool = False
    generation: int = 0
    needed_from: int = 0
    last_sequence: int = 0
    damage: str = ""
    pieces: dict[PartitionKey, list[Piece]] = field(default_factory=dict)


class DurableJournal:
    """The journal in the data directory `directory` of a world."""

    def __init__(self, world: World, directory: str) -> None:
        self._world, self._directory = world, directory
        self._segments: dict[int, DurableSegment] = {}  # by node id
        self._found = DurableEntries()
        self._found_at: tuple[tuple[str, int, int], ...] | None = None

    def names(self, *, durable: bool) -> dict[str, Node]:
        """All of its files, the one that says that it is over too."""
        top = self._world.find(self._directory, durable=durable)
        names = {} if top is None else top.durable_names if durable else top.names
        return {name: node for name, node in names.items() if is_segment(name) or name == CLOSED_FILE}

    def segment(self, node: Node) -> DurableSegment:
        """What is durable of a file of it."""
        found = self._segments.setdefault(node.id, DurableSegment(node))
        found.read()
        return found

    def found(self) -> DurableEntries:
        """What a power cut would leave now."""
        names = self.names(durable=True)
        key = tuple(sorted((name, node.id, node.durable_version) for name, node in names.items()))
        if key != self._found_at:
            self._found_at = key
            is_closed = CLOSED_FILE in names
            segments = [] if is_closed else [self.segment(node) for node in names.values()]
            self._found = _looked_through([each for each in segments if each.header is not None])
        return self._found


def _looked_through(segments: Sequence[DurableSegment]) -> DurableEntries:
    if not segments:
        return DurableEntries()
    headers = [each.header for each in segments if each.header is not None]
    newest = max(headers, key=lambda each: each.first_sequence)
    entries = {entry.sequence: entry for each in segments for entry in each.entries}
    needed_from = max([newest.needed_from, *(each.needed_from for each in entries.values())])
    synced_sequence = max((each.synced_sequence for each in entries.values()), default=0)
    found = DurableEntries(True, newest.generation, needed_from, needed_from - 1)
    while (entry := entries.get(found.last_sequence + 1)) is not None:
        found.last_sequence += 1
        for piece in entry.pieces:
            found.pieces.setdefault((piece.topic_id, piece.partition), []).append(piece)
    if len({each.generation for each in headers}) > 1:
        found.damage = "segments of two starts"
    elif found.last_sequence < synced_sequence:
        found.damage = f"entry {found.last_sequence + 1} is not there, and {synced_sequence} was synced"
    return found


def put_back(segments: dict[int, bytes], pieces: Sequence[Piece], recovery_point: int) -> dict[int, bytes]:
    """The segments that change, by base offset, where `segments` are the durable ones: each batch goes to its very place, and a
    segment ends where the next one begins."""
    written: dict[int, bytearray] = {}
    newest: tuple[int, int] | None = None
    for piece in pieces:
        if piece.end_offset <= recovery_point:
            continue
        base = piece.segment_base_offset
        data = written.setdefault(base, bytearray(segments.get(base, b"")))
        if newest is not None and newest[0] != base:
            del written[newest[0]][newest[1] :]
        data.extend(bytes(max(piece.position - len(data), 0)))
        data[piece.position : piece.position + len(piece.kept)] = piece.kept
        newest = base, piece.position + piece.size_bytes
    return {base: bytes(data) for base, data in written.items()}
