"""`oncelog reconcile`: do the logs of a data directory agree with one another, and with what lies beside them?"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import click

from oncelog.cli.command import Settings, command
from oncelog.cli.numbers import WholeNumberRange
from oncelog.cli.output import EXIT_FAILURE, EXIT_FOUND, REPAIR, Column, Failed, Output, counted, json_text
from oncelog.core.processes.process_plan import FOLLOWERS_FOLDER, directory_of
from oncelog.core.two_phase.sink_names import DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX
from oncelog.errors import ConfigurationError, StorageError
from oncelog.host.read_only_files import ReadOnlyFiles, is_locked
from oncelog.host.spill import BucketFiles, read_bucket

if TYPE_CHECKING:
    from oncelog.core.reconciliation.findings import Finding
    from oncelog.segments.directory import PartitionFiles
    from oncelog.segments.partition_reading import PartitionSummary
    from oncelog.segments.reconciliation import Plan, Reconciliation, Report

ALONE_BYTES_MAX = 64 << 20  # below it other processes cost more than they save
PROGRESS_S = 2.0
ENDED, DECIDED = "ended", "decided"
_COLUMNS = [
    Column("kind"),
    Column("where"),
    Column("offsets"),
    Column("producer"),
    Column("transactional_id", wide=True),
    Column("directory", wide=True),
    Column("file", wide=True),
    Column("text", "WITNESS"),
    Column("repair", REPAIR),
]


@command(name="reconcile")
@click.argument("directories", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--exit-code", is_flag=True, help="Exit status 3 when a fault is found.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only findings of this kind; `note` for notes, `unread` for what could not be read.",
)
@click.option("--notes", is_flag=True, help="Also what is unfinished, or was not judged.")
@click.option("--workers", type=WholeNumberRange(1), help="Processes that read [default: one for each core].")
@click.option(
    "--prefix", default=TRANSACTIONAL_ID_PREFIX, show_default=True, help="The Spark sink's transactionalIdPrefix."
)
@click.option("--decision-topic", default=DECISION_TOPIC, show_default=True, help="Where its decisions are.")
@click.pass_context
def reconcile(
    ctx: click.Context,
    directories: tuple[str, ...],
    exit_code: bool,
    kinds: tuple[str, ...],
    notes: bool,
    workers: int | None,
    prefix: str,
    decision_topic: str,
) -> None:
    """Compare the logs of data directories with one another, without a broker; nothing is changed.

    DIRECTORIES are data directories of oncelog or of Apache Kafka: of one broker, or of all brokers of a cluster. Found
    are hanging, orphaned and torn transactions, markers without a decision and decisions without a marker, transaction
    indexes and producer snapshots that differ from the log, group offsets that point nowhere, gaps, damaged batches: each
    with its offsets and the command that mends it (docs/reconcile.md). Exit status 1 when something could not be read, from
    which nothing is concluded.
    """
    out = ctx.ensure_object(Settings).out
    try:
        from oncelog.core.reconciliation.findings import KINDS, NOTE, UNREAD
        from oncelog.segments.reconciliation import plan_of
    except ModuleNotFoundError as error:
        raise Failed(f"reconcile needs {error.name}: pip install oncelog[reconcile]") from error
    unknown = [kind for kind in kinds if kind not in (*KINDS, UNREAD, NOTE)]
    if unknown:
        raise click.UsageError(f"--kind {unknown[0]}: there are {', '.join((*KINDS, UNREAD, NOTE))}")
    files = ReadOnlyFiles()
    try:
        plan = plan_of(
            files,
            _each_once([own for each in directories for own in _of_all_processes(files, each)]),
            decision_topic=decision_topic,
            is_running=lambda path: is_locked(f"{path}/.lock"),
        )
        with tempfile.TemporaryDirectory(prefix="oncelog-reconcile-") as spill:
            report = _reconcile(out, plan, spill, workers or os.cpu_count() or 1, prefix)
    except (ConfigurationError, StorageError) as error:
        raise Failed(str(error)) from error
    except BrokenExecutor as error:
        raise Failed("a process that read was killed: out of memory? --workers 1 needs least") from error
    except OSError as error:
        raise Failed(f"the temporary files cannot be written: {error.strerror or error}") from error
    _print(out, report, set(kinds) or {*KINDS, UNREAD, *([NOTE] if notes or out.is_machine else [])})
    if exit_code and report.faults:
        ctx.exit(EXIT_FOUND)
    if report.unread:
        ctx.exit(EXIT_FAILURE)


def _of_all_processes(files: ReadOnlyFiles, directory: str) -> list[str]:
    """The directory, and those of the broker's other processes: a process alone has positions in logs that others lead."""
    folder = f"{directory}/{FOLLOWERS_FOLDER}"
    numbers = sorted(int(name) for name in files.list(folder) if name.isdecimal()) if files.exists(folder) else []
    others = (directory_of(directory, number) for number in numbers)
    return [directory, *(each for each in others if files.exists(f"{each}/meta.properties"))]


def _each_once(directories: Sequence[str]) -> list[str]:
    return list({os.path.realpath(each): os.path.abspath(each) for each in reversed(directories)}.values())[::-1]


def _reconcile(out: Output, plan: Plan, spill: str, workers: int, prefix: str) -> Report:
    from oncelog.segments.reconciliation import Reconciliation

    sizes = {path: _size_of(path) for files in (*plan.first, *plan.rest) for _, path in files.segments}
    progress = _Progress(out, sum(sizes.values()))
    rows, decided = BucketFiles(spill, f"{ENDED}-0"), BucketFiles(spill, DECIDED)
    work = Reconciliation(ReadOnlyFiles(), plan, rows, decided, prefix=prefix)
    work.read_first(progress.read)
    for summary in _summaries(plan, spill, rows, min(workers, len(plan.rest)), progress):
        work.add(summary)
    work.follow()
    rows.flush()
    decided.flush()
    return work.conclude(_judged(work, spill))


def _judged(work: Reconciliation, spill: str) -> Iterator[Finding]:
    return work.judged_buckets(lambda bucket: (read_bucket(spill, ENDED, bucket), read_bucket(spill, DECIDED, bucket)))


def _summaries(
    plan: Plan, spill: str, rows: BucketFiles, workers: int, progress: _Progress
) -> Iterator[PartitionSummary]:
    from oncelog.segments.reconciliation import read_log

    first = len(plan.first)
    if workers <= 1 or progress.size_bytes < ALONE_BYTES_MAX:
        for number, files in enumerate(plan.rest):
            yield read_log(ReadOnlyFiles(), files, first + number, rows, progress.read)
        return
    context = get_context("spawn")
    counter = context.Value("q", 0)
    with ProcessPoolExecutor(workers, context, _begin_worker, (spill, counter)) as pool:
        largest_first = sorted(
            enumerate(plan.rest), key=lambda each: -sum(_size_of(path) for _, path in each[1].segments)
        )
        waiting: set[Future[PartitionSummary]] = {
            pool.submit(_read_in_worker, files, first + number) for number, files in largest_first
        }
        try:
            while waiting:
                done, waiting = wait(waiting, PROGRESS_S, FIRST_COMPLETED)
                yield from (each.result() for each in done)
                progress.read_elsewhere(counter.value)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_worker: dict[str, Any] = {}


def _begin_worker(spill: str, counter: Any) -> None:
    _worker["rows"] = BucketFiles(spill, f"{ENDED}-{os.getpid()}")
    _worker["counter"] = counter


def _read_in_worker(files: PartitionFiles, place: int) -> PartitionSummary:
    from oncelog.segments.reconciliation import read_log

    def read(size_bytes: int) -> None:
        with _worker["counter"].get_lock():
            _worker["counter"].value += size_bytes

    summary = read_log(ReadOnlyFiles(), files, place, _worker["rows"], read)
    _worker["rows"].flush()
    return summary


class _Progress:
    """Says on stderr how much was read, every few seconds of long work."""

    def __init__(self, out: Output, size_bytes: int) -> None:
        from oncelog.host.clock import RealClock

        self.size_bytes = size_bytes
        self._out, self._clock = out, RealClock()
        self._done = self._elsewhere = 0
        self._said_ms = self._clock.now_ms()

    def read(self, size_bytes: int) -> None:
        """So many more bytes."""
        self._done += size_bytes
        self._say()

    def read_elsewhere(self, size_bytes: int) -> None:
        """So many in all were read by other processes."""
        self._elsewhere = size_bytes
        self._say()

    def _say(self) -> None:
        now_ms = self._clock.now_ms()
        if abs(now_ms - self._said_ms) >= PROGRESS_S * 1000:
            self._said_ms = now_ms
            done = self._done + self._elsewhere
            self._out.note(f"read {done / 1e9:.2f} of {self.size_bytes / 1e9:.2f} GB")


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0  # removed meanwhile


def _print(out: Output, report: Report, kinds: set[str]) -> None:
    shown = [each for each in report.findings if each.kind in kinds]
    rows = [_row(each) for each in shown]
    if out.format == "json":
        counts = Counter(each.kind for each in report.faults)
        document = {
            "consistent": not report.faults and not report.unread,
            "counts": dict(counts),
            "unread": len(report.unread),
            "logs": report.log_count,
            "batches": report.batch_count,
            "records": report.record_count,
            "size_bytes": report.size_bytes,
            "notes": report.notes,
            "findings": rows,
        }
        out.data(json_text(document, indent=2) + "\n")
        return
    out.rows(_COLUMNS, rows)
    for note in report.notes:
        out.note(f"note: {note}")
    hidden = sum(each.kind == "note" for each in report.findings) if "note" not in kinds else 0
    more = f" ({counted(hidden, 'note')}: --notes)" if hidden else ""
    verdict = f"{counted(len(report.faults), 'fault')} found" if report.faults else "consistent"
    if report.unread:
        verdict = f"{len(report.unread)} could not be read, and nothing is concluded from that; of the rest: {verdict}"
    out.note(
        f"{counted(report.log_count, 'log')}, {report.batch_count} batches, "
        f"{counted(report.record_count, 'record')}: {verdict}{more}"
    )


def _row(finding: Finding) -> dict[str, Any]:
    first, last = finding.first_offset, finding.last_offset
    return {
        **asdict(finding),
        "where": f"{finding.topic}-{finding.partition}" if finding.topic else finding.file,
        "offsets": "" if first < 0 else str(first) if first == last else f"{first}..{last}",
        "producer": "" if finding.producer_id < 0 else f"{finding.producer_id}:{finding.producer_epoch}",
    }


def reconciled(directories: Sequence[str], prefix: str = TRANSACTIONAL_ID_PREFIX) -> Report:
    """The same as a call, in this process: for programs and tests. Raises ConfigurationError, StorageError."""
    from oncelog.segments.reconciliation import plan_of

    plan = plan_of(
        ReadOnlyFiles(),
        [os.path.abspath(each) for each in directories],
        is_running=lambda path: is_locked(f"{path}/.lock"),
    )
    with tempfile.TemporaryDirectory(prefix="oncelog-reconcile-") as spill:
        return _reconcile(Output("tsv"), plan, spill, 1, prefix)
