"""Control records: what a COMMIT or ABORT looks like inside a partition (KIP-98, "Control Messages").

Key: version int16, type int16. Value of an end-transaction marker: version int16, coordinator epoch int32. Both may
grow by version, so a newer version is read as version 0; types other than ABORT and COMMIT are of no concern here.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from oncelog.errors import CorruptBatch

ABORT = 0
COMMIT = 1

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class EndTxnMarker(NamedTuple):
    """The end of a transaction in a partition."""

    commit: bool
    coordinator_epoch: int


def end_txn_marker_to_bytes(marker: EndTxnMarker) -> tuple[bytes, bytes]:
    """Key and value of the marker's record."""
    return _KEY.pack(0, COMMIT if marker.commit else ABORT), _VALUE.pack(0, marker.coordinator_epoch)


def end_txn_marker_from_bytes(key: bytes | None, value: bytes | None) -> EndTxnMarker | None:
    """The marker, or None for a control record of another type; CorruptBatch when it cannot be either."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record's key is too short")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"control record version {version}")
    if control_type not in (ABORT, COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise CorruptBatch("an end-transaction marker's value is too short")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"end-transaction marker version {version}")
    return EndTxnMarker(commit=control_type == COMMIT, coordinator_epoch=coordinator_epoch)
