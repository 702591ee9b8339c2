"""Columns of batches as what a partition's replay takes: runs of one producer, and markers, in the order of offsets."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

import numpy as np

from oncelog.core.reconciliation.partition_replay import EMPTIED, PLAIN, TRANSACTIONAL, Marker, Run
from oncelog.errors import CorruptBatch
from oncelog.segments.headers import Batches
from oncelog.wire.record_batch import RecordBatch

_MARKER_BYTES = 78  # one record of Kafka's form
_TYPE_AND_EPOCH = Struct(">h3xi").unpack_from  # at 68: type; one byte of length, int16 version; coordinator epoch
_SEQUENCE_MASK = (1 << 31) - 1
_CONTROL = 3


def events(batches: Batches) -> Iterator[Run | Marker]:
    """Runs and markers of batches without problems, each run where its first batch is."""
    order, firsts, lasts, kinds = _runs(batches)
    if not len(order):
        return
    header = batches.header
    first_rows, last_rows = order[firsts], order[lasts]
    counts = np.add.reduceat(header["record_count"][order].astype(np.int64), firsts)
    sequence = header["base_sequence"][last_rows].astype(np.int64)
    delta = header["last_offset_delta"][last_rows].astype(np.int64)
    columns = (
        batches.producer_id[first_rows].tolist(),
        header["producer_epoch"][first_rows].tolist(),
        kinds[firsts].tolist(),
        batches.base_offset[first_rows].tolist(),
        batches.last_offset[last_rows].tolist(),
        np.where(sequence < 0, -1, (sequence + delta) & _SEQUENCE_MASK).tolist(),
        delta.tolist(),
        header["max_timestamp"][last_rows].tolist(),
        counts.tolist(),
    )
    rows = first_rows.tolist()
    runs = list(zip(*columns, strict=True))
    for number in np.argsort(first_rows, kind="stable").tolist():
        run = runs[number]
        if run[2] == _CONTROL:
            marker = marker_of(batches, rows[number])
            if marker is not None:
                yield marker
        else:
            yield Run._make(run)


def _runs(batches: Batches) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows ordered by producer, where runs begin and end in that order, and each row's kind."""
    header = batches.header
    usable = batches.producer_id >= 0
    if batches.problems:
        usable[list(batches.problems)] = False
    rows = np.flatnonzero(usable)
    order = rows[np.argsort(batches.producer_id[rows], kind="stable")]
    if not len(order):
        return order, order, order, order
    is_empty = header["record_count"][order] == 0
    kind = np.where(
        batches.is_control[order],
        _CONTROL,
        np.where(is_empty, EMPTIED, np.where(batches.is_transactional[order], TRANSACTIONAL, PLAIN)),
    )
    producer, epochs = batches.producer_id[order], header["producer_epoch"][order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (
        (producer[1:] != producer[:-1]) | (epochs[1:] != epochs[:-1]) | (kind[1:] != kind[:-1]) | (kind[1:] == _CONTROL)
    )
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(order)) - 1
    return order, firsts, lasts, kind


def marker_of(batches: Batches, row: int) -> Marker | None:
    """The end-of-transaction marker in a control batch; None for a control record of another kind. CorruptBatch is none."""
    header = batches.header[row]
    commit: bool | None = None
    coordinator_epoch = -1
    if int(header["record_count"]):
        data = batches.bytes_of(row)
        if len(data) == _MARKER_BYTES and not int(header["attributes"]) & 7:
            control_type, coordinator_epoch = _TYPE_AND_EPOCH(data, 68)
            if control_type not in (0, 1):
                return None
            commit = control_type == 1
        else:
            try:
                found = RecordBatch(data).end_txn_marker()
            except CorruptBatch:
                return None
            if found is None:
                return None
            commit, coordinator_epoch = found.commit, found.coordinator_epoch
    return Marker(
        int(header["producer_id"]),
        int(header["producer_epoch"]),
        int(batches.last_offset[row]),
        int(header["max_timestamp"]),
        commit,
        coordinator_epoch,
    )
