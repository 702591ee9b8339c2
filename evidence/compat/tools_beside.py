"""`python -m evidence.compat.tools_beside`: our tools and Apache Kafka's, asked the same of the same broker, in one table.

`kafka-transactions` is compared by exit status and by what is on stdout, `kafka-consumer-groups` with `oncelog groups` by exit
status and the values in the rows, as they have other columns. What differs must stand in `ON_PURPOSE`. Both brokers are asked.
The record and docs/tools-beside.md are written; exit 1 where something differs without a reason, or has one and does not.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evidence.compat.servers import NOT_ALL_RUN
from evidence.compat.tool_runner import Ran, ToolRunner
from evidence.differential.brokers import ApacheKafkaNode, OncelogNode, kafka_launcher
from oncelog import Admin, OffsetAndMetadata, Producer, TopicPartition

RECORD = pathlib.Path(__file__).with_name("tools_beside.json")
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tools-beside.md"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIG = {"transaction.two.phase.commit.enable": True}
KAFKA, ONCELOG = "Apache Kafka", "oncelog"
VARYING = ("TransactionDurationMs", "Duration(min)", "LastTimestamp")
AT = ("--topic", "beside", "--partition", "0")
TRANSACTION_SETS: tuple[tuple[str, ...], ...] = (
    ("list",),
    ("list", "--duration-filter", "0"),
    ("list", "--duration-filter", "86400000"),
    ("list", "--transactional-id-pattern", "beside-.*"),
    ("list", "--transactional-id-pattern", "nothing-.*"),
    ("list", "--transactional-id-pattern", "["),
    ("list", "--duration-filter", "soon"),
    ("describe", "--transactional-id", "beside-open"),
    ("describe", "--transactional-id", "beside-done"),
    ("describe", "--transactional-id", "nothing"),
    ("describe",),
    ("describe-producers", *AT),
    ("describe-producers", *AT, "--broker-id", "1"),
    ("describe-producers", *AT, "--broker-id", "99"),
    ("describe-producers", "--topic", "beside", "--partition", "1"),
    ("describe-producers", "--topic", "nothing", "--partition", "0"),
    ("describe-producers", "--topic", "beside"),
    ("describe-producers", "--topic", "beside", "--partition", "x"),
    ("find-hanging", "--topic", "beside"),
    ("find-hanging", "--topic", "beside", "--partition", "0"),
    ("find-hanging", "--topic", "beside", "--partition", "1"),
    ("find-hanging", "--broker-id", "1"),
    ("find-hanging", "--broker-id", "1", "--topic", "beside"),
    ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1"),
    ("find-hanging", "--partition", "0"),
    ("find-hanging",),
    ("abort", *AT),
    ("abort", *AT, "--start-offset", "99"),
    ("abort", *AT, "--producer-id", "0"),
    ("abort", *AT, "--start-offset", "x"),
    ("abort", "--topic", "nothing", "--partition", "0", "--start-offset", "0"),
    ("forceTerminateTransaction",),
    ("nothing",),
    (),
    ("list", "--nothing"),
    ("--help",),
    ("describe-producers", "--topic", "beside", "--partition", "9"),
    ("forceTerminateTransaction", "--transactionalId", "beside-open"),
    ("describe-producers", *AT),
)
RESET = ("--reset-offsets", "--group", "besides", "--topic", "beside", "--dry-run")
OURS = ("reset-offsets", "besides", "--topic", "beside", "--dry-run")
ON_PURPOSE: dict[tuple[str, ...], str] = {("--help",): "exit status 0: help that was asked for is no error"}


@dataclass(frozen=True)
class GroupSet:
    """The same question to both. `theirs` and `ours` take the values out of the rows of each."""

    apache: tuple[str, ...]
    oncelog: tuple[str, ...]
    apache_columns: tuple[str, ...]
    keys: tuple[str, ...]
    reason: str = ""


POSITIONS = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
OUR_POSITIONS = ("group", "topic", "partition", "position", "high_watermark", "raw_lag")
STABLE = (
    "to the last stable offset: Apache's goes to the high watermark, and loses what an open transaction commits later"
)
TO, OUR_TO = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), ("group", "topic", "partition", "to")
GROUP_SETS = (
    GroupSet(("--list",), ("list",), (), ("group",)),
    GroupSet(("--list", "--state"), ("list",), ("GROUP", "STATE"), ("group", "state")),
    GroupSet(("--list", "--state", "Empty"), ("list", "--state", "Empty"), ("GROUP", "STATE"), ("group", "state")),
    GroupSet(("--describe", "--group", "besides"), ("describe", "besides"), POSITIONS, OUR_POSITIONS),
    GroupSet(
        ("--describe", "--group", "nothing"),
        ("describe", "nothing"),
        POSITIONS,
        OUR_POSITIONS,
        "exit status 1: who misspells a group should not take it for one without positions",
    ),
    *(
        GroupSet((*RESET, *theirs), (*OURS, *(ours or theirs)), TO, OUR_TO, STABLE if theirs == ("--to-latest",) else "")
        for theirs, ours in (
            (("--to-earliest",), ()),
            (("--to-latest",), ()),
            (("--to-offset", "2"), ()),
            (("--to-offset", "99"), ()),
            (("--shift-by", "-1"), ()),
            (("--shift-by", "-99"), ()),
            (("--to-datetime", "2020-01-01T00:00:00.000"), ("--to-time", "2020-01-01T00:00:00")),
            (("--by-duration", "P1D"), ("--by-duration", "1d")),
        )
    ),
    GroupSet((*RESET[:3], "--topic", "nothing", "--to-earliest", "--dry-run"),
             ("reset-offsets", "besides", "--topic", "nothing", "--to-earliest", "--dry-run"), TO, OUR_TO,
             "exit status 1; Apache's says that there is no such topic, and ends with 0"),
    GroupSet(("--delete-offsets", "--group", "besides", "--topic", "beside:1"),
             ("delete-offsets", "besides", "--topic", "beside:1", "-y"), (), ()),
    GroupSet(("--describe", "--group", "besides"), ("describe", "besides"), POSITIONS, OUR_POSITIONS),
    GroupSet(("--delete", "--group", "nothing"), ("delete", "nothing", "-y"), (), (),
             "exit status 1; Apache's tells the error, and ends with 0"),
    GroupSet(("--delete", "--group", "besides"), ("delete", "besides", "-y"), (), ()),
)  # fmt: skip
CHANGES = ("--delete-offsets", "--delete")


async def plant(bootstrap: str) -> None:
    """A transaction that ended, one that is open, and a group's positions before it."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics({"beside": 2})
        async with Producer(bootstrap_servers=bootstrap, transactional_id="beside-done") as done, done.transaction():
            for number in range(3):
                await done.send("beside", b"%d" % number, partition=0)
        await admin.alter_consumer_group_offsets(
            "besides", {TopicPartition("beside", 0): 1, TopicPartition("beside", 1): OffsetAndMetadata(0)}
        )
    producer = Producer(bootstrap_servers=bootstrap, transactional_id="beside-open", transaction_timeout_ms=900_000)
    await producer.start()
    producer.begin_transaction()
    await producer.send("beside", b"open", partition=0)
    await producer.detach_transaction()
    await producer.stop()


def ours(code: str, *arguments: str) -> Ran:
    """One of our tools, a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return Ran(done.returncode, [line for line in done.stdout.splitlines() if line.strip()], done.stderr.splitlines())


def shown(lines: Sequence[str]) -> list[str]:
    """Rows in order, without what passes with time."""
    if not lines:
        return []
    titles = lines[0].split()
    varying = [index for index, title in enumerate(titles) if title in VARYING]
    rows = [line.split() for line in lines]
    kept = [" ".join("N" if i in varying else cell for i, cell in enumerate(row)) for row in rows[1:]]
    return [" ".join(titles), *sorted(kept)]


def transactions_beside(apache: ToolRunner, bootstrap: str, arguments: tuple[str, ...]) -> str:
    """ "" where both say the same, else how they differ."""
    where = () if arguments in ((), ("--help",)) else ("--bootstrap-server", bootstrap)
    code = "from oncelog.cli.entry_points import kafka_transactions; kafka_transactions()"
    if arguments[:1] == ("forceTerminateTransaction",) and len(arguments) > 1:
        own = ours(code, *where, *arguments)  # once: there is nothing to end for the second who tries
        return "" if own.status == 0 else f"ended with {own.status}: {own.errors[-1:]}"
    theirs, own = apache(TRANSACTIONS, *where, *arguments), ours(code, *where, *arguments)
    if theirs.status != own.status:
        return f"exit status {own.status}, Apache's {theirs.status}"
    return (
        "" if own.status or shown(theirs.lines) == shown(own.lines) else f"{shown(own.lines)} != {shown(theirs.lines)}"
    )


def groups_beside(apache: ToolRunner, bootstrap: str, asked: GroupSet) -> str:
    """The same, by values."""
    where = ("--bootstrap-server", bootstrap)
    code = "from oncelog.cli.main import main; main()"
    if asked.apache[0] in CHANGES and not asked.reason:
        own = ours(code, "-b", bootstrap, "groups", *asked.oncelog, "-o", "json")
        return "" if own.status == 0 else f"ended with {own.status}: {own.errors[-1:]}"
    theirs, own = (
        apache(GROUPS, *where, *asked.apache),
        ours(code, "-b", bootstrap, "groups", *asked.oncelog, "-o", "json"),
    )
    if theirs.status != own.status:
        return f"exit status {own.status}, Apache's {theirs.status}"
    rows = [[str(row[key]) for key in asked.keys] for row in json.loads("\n".join(own.lines) or "[]")]
    found = values(theirs.lines, asked.apache_columns)
    return "" if own.status or sorted(rows) == sorted(found) else f"{sorted(rows)} != {sorted(found)}"


def values(lines: Sequence[str], columns: Sequence[str]) -> list[list[str]]:
    """The columns of a table; without columns each line is one value."""
    if not columns:
        return [[line.strip()] for line in lines]
    titles = next((line.split() for line in lines if set(columns) <= set(line.split())), None)
    if titles is None:
        return []
    places = [titles.index(each) for each in columns]
    rows = [line.split() for line in lines[lines.index(next(li for li in lines if li.split() == titles)) + 1 :]]
    return [[row[place] for place in places] for row in rows if len(row) >= len(titles)]


def compared(bootstrap: str, apache: ToolRunner) -> list[dict[str, Any]]:
    """Every set on one broker: what was asked of whom, and how the answers differ."""
    asyncio.run(plant(bootstrap))
    found = []
    for group in GROUP_SETS[:-1]:
        told = groups_beside(apache, bootstrap, group)
        found.append(
            _row("kafka-consumer-groups", group.apache, "groups " + " ".join(group.oncelog), told, group.reason)
        )
    for arguments in TRANSACTION_SETS:
        told = transactions_beside(apache, bootstrap, arguments)
        found.append(_row("kafka-transactions", arguments, "kafka-transactions", told, ON_PURPOSE.get(arguments, "")))
    last = GROUP_SETS[-1]
    told = groups_beside(apache, bootstrap, last)
    found.append(_row("kafka-consumer-groups", last.apache, "groups " + " ".join(last.oncelog), told, last.reason))
    return found


def _row(tool: str, arguments: Sequence[str], own: str, told: str, reason: str) -> dict[str, Any]:
    print(f"  {'same' if not told else 'differs'}  {tool} {' '.join(arguments)}  {told}", flush=True)
    return {"tool": tool, "arguments": list(arguments), "ours": own, "differs": told, "reason": reason}


def problems(broker: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """What differs without a reason, and reasons without a difference."""
    wrong = [each for each in rows if bool(each["differs"]) is not bool(each["reason"])]
    return [
        f"{broker}: {each['tool']} {' '.join(each['arguments'])}: {each['differs'] or 'the same'}" for each in wrong
    ]


def render(record: dict[str, list[dict[str, Any]]]) -> str:
    """The page."""
    rows = record[KAFKA]
    same = sum(not each["differs"] for each in rows)
    lines = [
        "# Our tools beside Apache Kafka's",
        f"The same questions to the same brokers, Apache Kafka 4.3.0 and oncelog: {same} of {len(rows)} answers are the same on",
        "each, the others differ on purpose. Compared are exit statuses and, of `kafka-transactions` (a drop-in without a JVM),",
        "what is on stdout; of `kafka-consumer-groups` and `oncelog groups` the values: group, topic, partition, position, end,",
        "lag, state, and where a reset would go. Made by `python -m evidence.compat.tools_beside`.",
        "",
        "| Apache's tool | with | ours | answer |",
        "|---|---|---|---|",
    ]
    for each in rows:
        arguments = " ".join(each["arguments"]).replace("|", "\\|") or "(nothing)"
        answer = f"differs: {each['reason']}" if each["differs"] else "the same"
        own = "the same" if each["ours"] == each["tool"] else f"`oncelog {each['ours']}`"
        lines.append(f"| `{each['tool']}` | `{arguments}` | {own} | {answer} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    launcher = kafka_launcher()
    if launcher is None:
        print("tools-beside: Apache Kafka's tools need Java 17 and mvn")
        return NOT_ALL_RUN
    record: dict[str, list[dict[str, Any]]] = {}
    wrong: list[str] = []
    nodes: dict[str, Callable[[pathlib.Path], Any]] = {
        KAFKA: lambda folder: ApacheKafkaNode(folder, launcher, CONFIG),
        ONCELOG: lambda folder: OncelogNode(folder, CONFIG),
    }

    def ask(name: str) -> list[dict[str, Any]]:
        with (
            tempfile.TemporaryDirectory(prefix="oncelog-beside-") as folder,
            ToolRunner(launcher) as apache,
            nodes[name](pathlib.Path(folder)) as broker,
        ):
            return compared("{}:{}".format(*broker.address), apache)

    with concurrent.futures.ThreadPoolExecutor(len(nodes)) as both:  # Apache's tools wait for minutes, each for itself
        for name, rows in zip(nodes, both.map(ask, nodes), strict=True):
            record[name] = rows
            wrong += problems(name, rows)
    for line in wrong:
        print(f"WRONG {line}")
    if not wrong:
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
        PAGE.write_text(render(record))
    count = len(record[KAFKA])
    print(f"tools-beside: {count} argument sets on {len(record)} brokers, {len(wrong)} differ without a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
