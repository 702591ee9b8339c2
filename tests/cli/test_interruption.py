"""SIGTERM and SIGHUP leave nothing behind: neither an open transaction nor a member of a group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

from oncelog.cli.interruption import ending_signals
from tests.cli.world import Cli


@contextlib.contextmanager
def started(cli: Cli, *arguments: str, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "oncelog", "-b", cli.bootstrap_servers, *arguments]
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_terminated_consumer_leaves_its_group(cli: Cli) -> None:
    cli.create("terminated-group")
    cli("produce", "terminated-group", stdin="one\n")
    with started(cli, "consume", "terminated-group", "--group", "terminated") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 143
    (group,) = cli.json("groups", "describe", "terminated")
    assert group["client"] is None


def test_a_terminated_producer_aborts_its_transaction(cli: Cli) -> None:
    cli.create("terminated-transaction")
    arguments = ("produce", "terminated-transaction", "--transactional-id", "terminated", "--transaction-size", "2")
    end, begin = os.pipe()
    with started(cli, *arguments, stdin=end) as process:
        os.close(end)
        os.write(begin, b"one\ntwo\nthree\n")
        while not cli.json("transactions", "list", "--state", "Ongoing", "--pattern", "terminated"):
            pass  # the first transaction, or the second: that of `three` stays open
        while "one" not in cli("consume", "terminated-transaction", "-e").stdout:
            pass
        while not cli.json("transactions", "list", "--state", "Ongoing", "--pattern", "terminated"):
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 143
    os.close(begin)
    assert end_of(cli, "terminated") == "CompleteAbort"
    assert cli("consume", "terminated-transaction", "-e").stdout == "one\ntwo\n"


def end_of(cli: Cli, transactional_id: str) -> str:
    """The state of its transaction once its markers are written."""
    while (state := str(cli.json("transactions", "describe", transactional_id)["state"])).startswith("Prepare"):
        pass
    return state


def test_a_producer_whose_terminal_goes_away_aborts_its_transaction(cli: Cli) -> None:
    cli.create("hung-up")
    end, begin = os.pipe()
    before = signal.signal(
        signal.SIGHUP, signal.SIG_DFL
    )  # whoever runs the tests may ignore it, and children inherit that
    with started(cli, "produce", "hung-up", "--transactional-id", "hung-up", stdin=end) as process:
        signal.signal(signal.SIGHUP, before)
        os.close(end)
        os.write(begin, b"one\n")
        while not cli.json("transactions", "list", "--state", "Ongoing", "--pattern", "hung-up"):
            pass
        process.send_signal(signal.SIGHUP)
        assert process.wait() == 129
    os.close(begin)
    assert end_of(cli, "hung-up") == "CompleteAbort"


def test_under_nohup_a_lost_terminal_ends_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending_signals() == (signal.SIGTERM,)
    finally:
        signal.signal(signal.SIGHUP, before)
