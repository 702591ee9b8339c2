"""`oncelog dump-log`: what the files of a log say, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import click

from oncelog.cli.command import Settings, command
from oncelog.cli.dump_log.completeness import directory_items
from oncelog.cli.dump_log.files import Item, Wanted, items_of, reader_of
from oncelog.cli.dump_log.journal import is_journal_file, journal_items
from oncelog.cli.numbers import WholeNumber, is_number
from oncelog.cli.output import EXIT_FAILURE, counted


@command(name="dump-log")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--records/--no-records", default=None, help="Show records [default: only of internal topics, decoded].")
@click.option(
    "--from-offset", "first_offset", type=WholeNumber(), default=0, help="Leave out batches below this offset."
)
@click.option(
    "--to-offset", "end_offset", type=WholeNumber(), default=2**63 - 1, help="Leave out this offset and what follows."
)
@click.option("--problems-only", is_flag=True, help="Only what is wrong.")
@click.option("--journal", "only_journal", is_flag=True, help="Of a data directory only the journal.")
@click.pass_context
def dump_log(
    ctx: click.Context,
    paths: tuple[str, ...],
    records: bool | None,
    first_offset: int,
    end_offset: int,
    problems_only: bool,
    only_journal: bool,
) -> None:
    """Decode files of a data directory, of oncelog or of Apache Kafka, without a broker.

    PATHS are segments (.log), indexes (.index, .timeindex, .txnindex), producer snapshots, checkpoints, segments of
    the journal, partition directories, or a whole data directory. Records of __transaction_state, __consumer_offsets,
    __share_group_state and __cluster_metadata are decoded. Checksums are verified, indexes compared with their log, and
    logs with what the checkpoints beside them say was there. Exit status 1 when anything is damaged or missing.
    """
    settings = ctx.ensure_object(Settings)
    out = settings.out
    wanted = Wanted(records, first_offset, end_offset)
    problem_count = file_count = 0
    told: set[tuple[str, str]] = set()  # a checkpoint that cannot be read is met by each partition's directory
    with out.stream() as emit:
        for path in _files(paths):
            if only_journal and not is_journal_file(path):
                continue
            file_count += not os.path.isdir(path)
            is_titled = problems_only
            for item in _items(path, wanted):
                if item.is_problem and item.row["position"] is None:
                    what = (os.path.abspath(item.row["file"]), item.row["problem"])
                    if what in told:
                        continue
                    told.add(what)
                problem_count += item.is_problem
                if problems_only and not item.is_problem:
                    continue
                if not is_titled and out.format in ("table", "wide"):
                    out.data(f"{path}\n")
                    is_titled = True
                emit(item.row, item.line)
    if problem_count or problems_only:
        out.note(f"{counted(file_count, 'file')}, {counted(problem_count, 'problem')}")
    if problem_count:
        ctx.exit(EXIT_FAILURE)


def _items(path: str, wanted: Wanted) -> Iterator[Item]:
    if os.path.isdir(path):
        return directory_items(path)
    return journal_items(path, wanted) if is_journal_file(path) else items_of(path, wanted)


def _files(paths: Sequence[str]) -> Iterator[str]:
    """The files to read: those named, and of directories those whose names tell a format; behind them each directory itself, of
    which more may be missing than its files tell."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        unread: list[OSError] = []  # each has an item of its own, of its directory
        for directory, directories, names in os.walk(path, onerror=unread.append):
            directories.sort(key=_numbered)
            yield from (
                found
                for name in sorted(names)
                if reader_of(found := os.path.join(directory, name)) is not None or is_journal_file(found)
            )
            yield directory
        yield from (str(each.filename) for each in unread)


def _numbered(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return (topic, int(partition)) if is_number(partition) else (name, 0)
