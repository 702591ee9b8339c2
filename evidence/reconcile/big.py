"""`python -m evidence.reconcile.big --records 100000000 FOLDER`: a large data directory, and how fast it is reconciled.

Four partitions of transactions by two hundred producers (KIP-890: each with an epoch of its own), batches of `--per-batch`
records of about 8 bytes compressed; every tenth transaction is aborted. Coordinator's log, snapshots and transaction indexes fit.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import time
from struct import Struct

from oncelog.log.producer_snapshot import snapshot_to_bytes
from oncelog.log.transaction_index import aborted_to_bytes
from oncelog.types import AbortedTransaction, ProducerSnapshotEntry, TopicPartition
from oncelog.wire.crc32c import crc32c
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState, record_to_key_value
from oncelog.wire.record_batch import Codec, build_batch, build_end_txn_marker, set_offsets

PARTITIONS, PRODUCERS, SEGMENT_BYTES = 4, 200, 256 << 20
EPOCH_MAX = 32_000
START_MS = 1_750_000_000_000
_PRODUCER = Struct(">qhi").pack_into
_CRC = Struct(">I").pack_into


class Log:
    """One partition being made."""

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.offset, self.size_bytes = folder, 0, 0
        self.aborted: list[AbortedTransaction] = []
        self.producers: dict[int, ProducerSnapshotEntry] = {}
        self._roll()

    def _roll(self) -> None:
        self._finish()
        self.base, self.size_bytes = self.offset, 0
        self.file = (self.folder / f"{self.offset:020d}.log").open("wb")

    def _finish(self) -> None:
        if self.offset == 0:
            return
        self.file.close()
        if self.aborted:
            (self.folder / f"{self.base:020d}.txnindex").write_bytes(b"".join(map(aborted_to_bytes, self.aborted)))
            self.aborted = []
        (self.folder / f"{self.offset:020d}.snapshot").write_bytes(snapshot_to_bytes(self.producers.values()))

    def append(self, batch: bytearray, count: int, *, is_within: bool = False) -> int:
        if self.size_bytes > SEGMENT_BYTES and not is_within:  # the snapshot of a roll then has nothing open
            self._roll()
        first = self.offset
        set_offsets(batch, first, 0)
        self.file.write(batch)
        self.size_bytes += len(batch)
        self.offset += count
        return first

    def close(self) -> int:
        self._finish()
        return self.offset


def make(folder: pathlib.Path, records: int, per_batch: int, codec: Codec) -> None:
    """Write the directory."""
    shutil.rmtree(folder, ignore_errors=True)
    logs = [Log(folder / f"big-{number}") for number in range(PARTITIONS)]
    states = Log(folder / "__transaction_state-0")
    drawn = random.Random(1)
    rows = [(START_MS, b"%d" % number, drawn.randbytes(6), ()) for number in range(per_batch)]
    template = build_batch(rows, is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0, codec=codec)
    written = turn = 0
    while written < records:
        producer_id, epoch_of = turn % PRODUCERS, turn // PRODUCERS
        producer = producer_id + PRODUCERS * (epoch_of // EPOCH_MAX)
        data_epoch = epoch_of % EPOCH_MAX
        commit = turn % 10 != 0
        where = (turn % PARTITIONS, (turn + 1) % PARTITIONS)
        now_ms = START_MS + turn * 3
        partitions = frozenset(TopicPartition("big", number) for number in where)
        for state, bump, later in _states(commit):
            record = TransactionRecord(
                f"tx-{producer}",
                producer,
                data_epoch + bump,
                60_000,
                state,
                partitions,
                now_ms + later,
                now_ms,
                client_transaction_version=2,
            )
            key, value = record_to_key_value(record)
            states.append(build_batch([(now_ms, key, value, ())]), 1)
        for number in where:
            log = logs[number]
            _PRODUCER(template, 43, producer, data_epoch, 0)
            _CRC(template, 17, crc32c(template[21:]))
            first = log.append(template, per_batch)
            marker = build_end_txn_marker(
                commit=commit,
                producer_id=producer,
                producer_epoch=data_epoch + 1,
                coordinator_epoch=0,
                timestamp_ms=now_ms + 2,
            )
            offset = log.append(marker, 1, is_within=True)
            if not commit:
                log.aborted.append(AbortedTransaction(producer, first, offset, offset + 1))
            log.producers[producer] = ProducerSnapshotEntry(producer, data_epoch + 1, -1, -1, 0, now_ms + 2, 0, -1)
            written += per_batch
        turn += 1
    ends = {log.folder.name: log.close() for log in (*logs, states)}
    lines = [f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {end}" for name, end in ends.items()]
    (folder / "recovery-point-offset-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    (folder / "meta.properties").write_text("version=1\ncluster.id=big\nnode.id=1\n")
    (folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')


def _states(commit: bool) -> list[tuple[TransactionState, int, int]]:
    prepared, complete = TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT
    if not commit:
        prepared, complete = TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT
    return [(TransactionState.ONGOING, 0, 0), (prepared, 1, 1), (complete, 1, 2)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.reconcile.big", description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--per-batch", type=int, default=200)
    parser.add_argument("--codec", default="ZSTD")
    options = parser.parse_args()
    make(options.folder, options.records, options.per_batch, Codec[options.codec])
    begun = time.monotonic()
    command = [sys.executable, "-m", "oncelog", "reconcile", str(options.folder), "-o", "json"]
    said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    seconds = time.monotonic() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{said['records']} records in {said['batches']} batches, {said['size_bytes'] / 1e9:.2f} GB: {seconds:.1f} s, "
        f"{said['records'] / seconds / 1e6:.2f} M records/s, {said['size_bytes'] / seconds / 1e6:.0f} MB/s, "
        f"{said['batches'] / seconds / 1e3:.0f} k batches/s, {used.ru_utime + used.ru_stime:.1f} CPU s, "
        f"largest process {used.ru_maxrss / 1024:.0f} MiB, {len(said['findings'])} findings"
    )
    return 0 if said["consistent"] else 1


if __name__ == "__main__":
    sys.exit(main())
