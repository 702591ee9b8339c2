"""`kafka-transactions`: Apache Kafka's tool, its subcommands, flags, columns and exit statuses, without a JVM.

What it prints on stdout is what Apache's prints, byte for byte (compared live with 4.3.0). Differences are on purpose and
few: --help exits 0, and `abort` refuses what a coordinator still owns, as that would tear a transaction apart (KIP-664).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import oncelog
from oncelog.cli.clients import open_admin
from oncelog.cli.command import Settings
from oncelog.cli.interruption import run
from oncelog.cli.main import refuse_without_assertions
from oncelog.cli.numbers import whole_number
from oncelog.cli.output import Failed, Output, printable
from oncelog.cli.partitions import partitions_of
from oncelog.cli.signals import line_of, status_of
from oncelog.cli.standard_streams import stream_of
from oncelog.cli.transactions.repair import is_prepared, refused_prepared
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.transaction_listing import TransactionDescription
from oncelog.errors import OncelogError
from oncelog.host.clock import RealClock

PROGRAM = "kafka-transactions.sh"
MINUTE_MS = 60_000
if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[Any]


class _Parser(argparse.ArgumentParser):
    """argparse with Apache's exit status of a usage error: 1."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(1, f"{PROGRAM}: error: {printable(message)}\n")


def _number(text: str) -> int:
    """Raises argparse.ArgumentTypeError, in argparse's own words."""
    try:
        return whole_number(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from None


def parser() -> argparse.ArgumentParser:
    """Apache's command line."""
    top = _Parser(
        prog=PROGRAM,
        description="This tool is used to analyze the transactional state of producers in the cluster. "
        "It can be used to detect and recover from hanging transactions.",
        allow_abbrev=False,
    )
    top.add_argument("-v", "--version", action="version", version=f"oncelog {oncelog.__version__}")
    top.add_argument("--command-config", metavar="FILE", help="property file containing configs for the admin client")
    top.add_argument("--bootstrap-server", required=True, metavar="host:port", help="comma-separated brokers")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for add in (_add_list, _add_describe, _add_describe_producers, _add_abort, _add_find_hanging, _add_terminate):
        add(commands)
    return top


def _add_list(commands: _Commands) -> None:
    sub = commands.add_parser("list", help="list transactions")
    sub.add_argument("--duration-filter", type=_number, default=-1, help="only those running longer, in ms; < 0: all")
    sub.add_argument("--transactional-id-pattern", help="regular expression pattern to filter by")
    sub.set_defaults(body=_list, failure="Failed to list transactions")


def _add_describe(commands: _Commands) -> None:
    sub = commands.add_parser("describe", help="describe the state of an active transactional-id")
    sub.add_argument("--transactional-id", required=True)
    failure = "Failed to describe transaction state of transactional-id `{transactional_id}`"
    sub.set_defaults(body=_describe, failure=failure)


def _add_describe_producers(commands: _Commands) -> None:
    sub = commands.add_parser("describe-producers", help="describe the states of active producers for a partition")
    sub.add_argument("--broker-id", type=_number, help="describe the producer state on a specific replica")
    sub.add_argument("--topic", required=True)
    sub.add_argument("--partition", type=_number, required=True)
    failure = "Failed to describe producers for partition {topic}-{partition} on {broker}"
    sub.set_defaults(body=_describe_producers, failure=failure)


def _add_abort(commands: _Commands) -> None:
    sub = commands.add_parser("abort", help="abort a hanging transaction (requires administrative privileges)")
    sub.add_argument("--topic", required=True)
    sub.add_argument("--partition", type=_number, required=True)
    sub.add_argument("--start-offset", type=_number, help="start offset of the transaction to abort")
    sub.add_argument("--producer-id", type=_number)
    sub.add_argument("--producer-epoch", type=_number)
    sub.add_argument("--coordinator-epoch", type=_number)
    sub.set_defaults(body=_abort, failure="Failed to abort transaction")


def _add_find_hanging(commands: _Commands) -> None:
    sub = commands.add_parser("find-hanging", help="find hanging transactions")
    sub.add_argument("--broker-id", type=_number, help="broker id to search for hanging transactions")
    sub.add_argument("--max-transaction-timeout", type=_number, default=15, help="in minutes (15 by default)")
    sub.add_argument("--topic", help="topic name to limit search to (required if --partition is specified)")
    sub.add_argument("--partition", type=_number)
    sub.set_defaults(body=_find_hanging, failure="Failed to find hanging transactions")


def _add_terminate(commands: _Commands) -> None:
    sub = commands.add_parser("forceTerminateTransaction", help="force abort an ongoing transaction")
    sub.add_argument("--transactionalId", dest="transactional_id", required=True)
    failure = "Failed to force terminate transactionalId `{transactional_id}`"
    sub.set_defaults(body=_force_terminate, failure=failure)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Apache's `ToolsUtils.prettyPrintTable`: every column, the last one too, is padded and followed by a tab."""
    texts = [list(headers), *([printable(str(value)) for value in row] for row in rows)]
    widths = [max(len(line[index]) for line in texts) for index in range(len(headers))]
    for line in texts:
        print("".join(f"{text:<{width}}\t" for text, width in zip(line, widths, strict=True)))


async def _list(admin: Admin, options: argparse.Namespace) -> None:
    duration_ms = options.duration_filter if options.duration_filter >= 0 else None
    found = await admin.list_transactions(duration_ms=duration_ms, pattern=options.transactional_id_pattern)
    rows = [(each.transactional_id, each.coordinator_id, each.producer_id, each.state) for each in found]
    print_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


async def _describe(admin: Admin, options: argparse.Namespace) -> None:
    name = options.transactional_id
    found = (await admin.describe_transactions([name]))[name]
    start, duration = _start_and_duration(found)
    headers = (
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    )
    partitions = ",".join(str(where) for where in found.partitions)
    identity = (found.coordinator_id, name, found.producer_id, found.producer_epoch)
    print_table(headers, [(*identity, found.state, found.timeout_ms, start, duration, partitions)])


def _start_and_duration(found: TransactionDescription) -> tuple[object, object]:
    if found.start_ms < 0:
        return "None", "None"
    return found.start_ms, found.now_ms - found.start_ms


async def _describe_producers(admin: Admin, options: argparse.Namespace) -> None:
    (where,) = await partitions_of(admin, [f"{options.topic}:{options.partition}"])
    found = (await admin.describe_producers([where], broker_id=options.broker_id))[where]
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            "None" if each.transaction_start_offset is None else each.transaction_start_offset,
        )
        for each in found
    ]
    headers = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    print_table(headers, rows)


async def _abort(admin: Admin, options: argparse.Namespace) -> None:
    (where,) = await partitions_of(admin, [f"{options.topic}:{options.partition}"])
    if options.start_offset is not None:
        await admin.abort_transaction(where, start_offset=options.start_offset)
        return
    given = (options.producer_id, options.producer_epoch, options.coordinator_epoch)
    if None in given:
        raise Failed(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) "
            "or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    await admin.abort_transaction(
        where,
        producer_id=options.producer_id,
        producer_epoch=options.producer_epoch,
        coordinator_epoch=max(options.coordinator_epoch, 0),
    )


async def _find_hanging(admin: Admin, options: argparse.Namespace) -> None:
    if options.broker_id is None and options.topic is None:
        raise Failed(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if options.partition is not None and options.topic is None:
        raise Failed("The --partition argument requires --topic to be provided")
    found = await admin.find_hanging_transactions(
        topic=options.topic,
        partition=options.partition,
        broker_id=options.broker_id,
        max_transaction_timeout_ms=options.max_transaction_timeout * MINUTE_MS,
    )
    now_ms = RealClock().now_ms()
    rows = [
        (
            each.topic_partition.topic,
            each.topic_partition.partition,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.start_offset,
            each.last_timestamp_ms,
            max(0, now_ms - each.last_timestamp_ms) // MINUTE_MS,
        )
        for each in found
    ]
    headers = (
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    )
    print_table(headers, rows)


async def _force_terminate(admin: Admin, options: argparse.Namespace) -> None:
    name = options.transactional_id
    if is_prepared((await admin.describe_transactions([name]))[name]):  # no released Kafka has any
        raise Failed(f"{refused_prepared(name)} to `oncelog transactions force-terminate`")
    await admin.force_terminate_transaction(name)


async def _run(options: argparse.Namespace) -> int:
    settings = Settings(bootstrap_servers=options.bootstrap_server, command_config=options.command_config)
    try:
        async with open_admin(settings) as admin:
            await options.body(admin, options)
    except (OncelogError, OSError) as error:
        if isinstance(error, OSError) and stream_of(error):
            raise
        text = str(error) if isinstance(error, Failed) else f"{_failure(options)}: {error}"
        print(printable(text.replace("\n", " ")), file=sys.stderr)
        return 1
    return 0


def _failure(options: argparse.Namespace) -> str:
    broker = getattr(options, "broker_id", None)
    given = {**vars(options), "broker": "leader" if broker is None else f"broker {broker}"}
    return str(options.failure).format(**{key: value for key, value in given.items() if key != "failure"})


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point `kafka-transactions`."""
    refuse_without_assertions()
    try:
        options = parser().parse_args(arguments)
        status = run(_run(options))
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(status)
    except KeyboardInterrupt as error:
        print(line_of(error), file=sys.stderr)
        sys.exit(status_of(error))
    except OSError as error:
        if not stream_of(error):
            raise
        Output().error(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
