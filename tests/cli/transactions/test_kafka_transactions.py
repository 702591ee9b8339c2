"""The drop-in for Apache's tool: its columns byte for byte (as `TransactionsCommand` 4.3.0 printed them), its statuses."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelog.cli.transactions.kafka_transactions import main, print_table
from tests.cli.world import LONG_AGO_MS, OPEN_MS, Cli


@dataclass
class Tool:
    """Runs it in this process."""

    cli: Cli
    captured: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object, status: int = 0) -> str:
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            main(["--bootstrap-server", self.cli.bootstrap_servers, *map(str, arguments)])
        assert signal.getsignal(signal.SIGTERM) is before, "the next test that gets a signal would end the whole run"
        self.out, self.err = self.captured.readouterr()
        assert (ended.value.code or 0) == status, self.err
        return self.out


@pytest.fixture
def tool(cli: Cli, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(cli, capsys)


def test_tables_are_padded_and_tabbed_as_apaches(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A", "Long"), [("wide value", 1), ("x", "None")])
    assert capsys.readouterr().out == "A         \tLong\t\nwide value\t1   \t\nx         \tNone\t\n"


def test_list(cli: Cli, tool: Tool) -> None:
    state = cli.leave_open(cli.create("tool-list"), "tool-list")
    producer_id = state.split(":")[0]
    lines = tool("list", "--transactional-id-pattern", "tool-l.*", "--duration-filter", 0).splitlines()
    assert lines == [
        "TransactionalId\tCoordinator\tProducerId\tTransactionState\t",
        f"tool-list      \t1          \t{producer_id:<10}\tOngoing         \t",
    ]
    assert tool("list", "--transactional-id-pattern", "tool-l.*", "--duration-filter", 9999999).count("\n") == 1


def test_describe(cli: Cli, tool: Tool) -> None:
    state = cli.leave_open(cli.create("tool-describe"), "tool-describe")
    producer_id, producer_epoch = state.split(":")
    header, row = (line.split("\t") for line in tool("describe", "--transactional-id", "tool-describe").splitlines())
    assert header == [
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
        "",
    ]
    found = [text.strip() for text in row]
    assert found[:6] == ["1", "tool-describe", producer_id, producer_epoch, "Ongoing", str(OPEN_MS)]
    assert int(found[6]) > LONG_AGO_MS
    assert 0 <= int(found[7]) < OPEN_MS
    assert found[8:] == ["tool-describe-0", ""]


def test_describe_of_an_id_without_transactions(cli: Cli, tool: Tool) -> None:
    cli.leave_hanging(cli.create("tool-empty"), "tool-empty")
    row = tool("describe", "--transactional-id", "tool-empty").splitlines()[1]
    producer_id = row.split("\t")[2]
    assert row == (
        f"1            \ttool-empty     \t{producer_id}\t0            \tEmpty           \t30000               \t"
        "None                         \tNone                 \t               \t"
    )


def test_describe_producers(cli: Cli, tool: Tool) -> None:
    ghost = cli.leave_hanging(cli.create("tool-producers"), "tool-producers")
    lines = tool("describe-producers", "--topic", "tool-producers", "--partition", 0).splitlines()
    assert lines == [
        "ProducerId\tProducerEpoch\tLatestCoordinatorEpoch\tLastSequence\tLastTimestamp\tCurrentTransactionStartOffset\t",
        f"{ghost:<10}\t0            \t-1                    \t0           \t{LONG_AGO_MS}\t0                            \t",
    ]


def test_find_hanging_and_abort(cli: Cli, tool: Tool) -> None:
    ghost = cli.leave_hanging(cli.create("tool-hang"), "tool-hang")
    header, row = tool("find-hanging", "--topic", "tool-hang").splitlines()
    assert header.split("\t") == [
        "Topic    ",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
        "",
    ]
    found = [text.strip() for text in row.split("\t")]
    assert found[:7] == ["tool-hang", "0", str(ghost), "0", "-1", "0", str(LONG_AGO_MS)]
    assert int(found[7]) > 15
    assert tool("abort", "--topic", "tool-hang", "--partition", 0, "--start-offset", 0) == ""
    assert tool("find-hanging", "--broker-id", 1, "--topic", "tool-hang").count("\n") == 1


def test_force_terminate_has_apaches_odd_spelling(cli: Cli, tool: Tool) -> None:
    cli.leave_open(cli.create("tool-force"), "tool-force")
    assert tool("forceTerminateTransaction", "--transactionalId", "tool-force") == ""
    assert tool("describe", "--transactional-id", "tool-force").splitlines()[1].split("\t")[8].strip() == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("describe", "--transactional-id", "nobody"),
            "Failed to describe transaction state of transactional-id `nobody`",
        ),
        (
            ("describe-producers", "--topic", "nope", "--partition", 0),
            "Failed to describe producers for partition nope-0 on leader",
        ),
        (("find-hanging",), "requires either --topic or --broker-id"),
        (("find-hanging", "--broker-id", 1, "--partition", 0), "requires --topic to be provided"),
        (("abort", "--topic", "nope", "--partition", 0, "--start-offset", 0), "Failed to abort transaction"),
        (("list", "--duration-filter", "long"), "invalid int value"),
        (("list", "--duration-filter", "1_0"), "invalid int value: '1_0'"),
        (("describe",), "required: --transactional-id"),
        (("foo",), "invalid choice: 'foo'"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_failures_are_status_1_and_one_line(tool: Tool, arguments: tuple[object, ...], says: str) -> None:
    assert tool(*arguments, status=1) == ""
    assert says in tool.err
    assert len([line for line in tool.err.splitlines() if says in line]) == 1


def test_abort_needs_to_know_which(cli: Cli, tool: Tool) -> None:
    cli.create("tool-which")
    tool("abort", "--topic", "tool-which", "--partition", 0, "--producer-id", 1, status=1)
    assert "must be identified either with --start-offset" in tool.err


def test_abort_refuses_what_a_coordinator_owns(cli: Cli, tool: Tool) -> None:
    cli.leave_open(cli.create("tool-owned"), "tool-owned")
    tool("abort", "--topic", "tool-owned", "--partition", 0, "--start-offset", 0, status=1)
    assert "belongs to transactional id 'tool-owned'" in tool.err


def test_help_and_version() -> None:
    for arguments in (["--help"], ["--version"], ["--bootstrap-server", "x:1", "list", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code


def test_a_prepared_transaction_is_not_ended_without_its_decision(cli: Cli, tool: Tool) -> None:
    cli.leave_open(cli.create("tool-prepared"), "tool-prepared", two_phase=True)
    tool("forceTerminateTransaction", "--transactionalId", "tool-prepared", status=1)
    assert "--even-if-prepared" in tool.err
    assert cli.json("transactions", "describe", "tool-prepared")["state"] == "Ongoing"


def test_a_wrong_configuration_is_told(cli: Cli, tool: Tool, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.properties"
    wrong.write_text("security.protocol=NONE\n")
    assert tool("--command-config", wrong, "list", status=1) == ""
    expected = "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
    assert tool.err == f"Failed to list transactions: security_protocol=NONE: {expected}\n"
