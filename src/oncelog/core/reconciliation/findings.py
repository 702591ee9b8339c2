"""What a reconciliation may find: eleven kinds of faults, each with witness offsets and the command that mends it; and what
it could not read, from which nothing follows."""

from __future__ import annotations

from dataclasses import replace

from oncelog.lazy_dataclass import dataclass

HANGING = "hanging"
ORPHANED = "orphaned"
TORN = "torn"
MARKER_WITHOUT_DECISION = "marker_without_decision"
DECISION_WITHOUT_MARKER = "decision_without_marker"
ABORTED_INDEX = "aborted_index"
TIME_INDEX = "time_index"
PRODUCER_STATE = "producer_state"
OFFSET_NOWHERE = "offset_nowhere"
GAP = "gap"
DAMAGED = "damaged"
UNREAD = "unread"  # no fault of the files that were read, and no verdict on the others: the exit status says so
NOTE = "note"  # no fault: unfinished, or not judged, and why

INTERNAL_TOPICS = frozenset(("__transaction_state", "__consumer_offsets", "__share_group_state"))
METADATA_TOPIC = "__cluster_metadata"

# In this order they are shown: what was lost before what follows from it.
KINDS = {
    DAMAGED: "a batch or a file that cannot be read",
    GAP: "offsets that no batch covers, and that no compaction removed",
    TORN: "a transaction committed on one partition and aborted on another, or against its decision",
    DECISION_WITHOUT_MARKER: "decided and completed by the coordinator, and still open on a partition",
    MARKER_WITHOUT_DECISION: "ended on a partition without a decision of a coordinator",
    HANGING: "open on a partition, and no coordinator will end it (KIP-664)",
    ORPHANED: "open at its coordinator, and nobody will end it",
    ABORTED_INDEX: "a transaction index that differs from the log: readers see aborted records, or miss committed ones",
    TIME_INDEX: "a time index that differs from the log",
    PRODUCER_STATE: "a producer snapshot that differs from the log",
    OFFSET_NOWHERE: "a committed offset of a group behind the end of its partition, or in none",
}
FAULTS = frozenset(KINDS)


@dataclass(frozen=True, slots=True)
class Finding:
    """One verdict. `first_offset` and `last_offset` (inclusive) are the witness in `topic`-`partition` of `directory`; -1: none.

    `producer_epoch` is the transaction's own (that of its data), where there is one. `repair`: what to type; "" where no
    command mends it, then `text` says what does. `kind` is one of KINDS, UNREAD or NOTE.
    """

    kind: str
    text: str
    directory: str = ""
    topic: str = ""
    partition: int = -1
    first_offset: int = -1
    last_offset: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    transactional_id: str = ""
    file: str = ""
    repair: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether it is more than a note."""
        return self.kind in FAULTS

    def at(self, directory: str, topic: str, partition: int) -> Finding:
        """The same, of this log."""
        return replace(self, directory=directory, topic=topic, partition=partition)


def no_copy(topic: str) -> str:
    """What can be done about records of a topic that are in no file any more."""
    if topic == METADATA_TOPIC:
        way = "put it back: nothing else knows which topics there are"
    elif topic in INTERNAL_TOPICS:  # cannot be deleted, and what is left of it serves nobody elsewhere
        way = (
            "without one, the partition can begin anew, and forgets what it had (docs/runbook.md, a damaged partition)"
        )
    else:
        way = "without one, send what is left to another topic (docs/runbook.md, a damaged partition)"
    return f"no command: these records are gone but for a copy of the files; {way}"


def in_order(findings: list[Finding]) -> list[Finding]:
    """By kind, then place."""
    order = {kind: number for number, kind in enumerate((UNREAD, *KINDS, NOTE))}
    return sorted(
        set(findings),
        key=lambda each: (
            order[each.kind],
            each.directory,
            each.topic,
            each.partition,
            each.first_offset,
            each.producer_id,
            each.text,
        ),
    )
