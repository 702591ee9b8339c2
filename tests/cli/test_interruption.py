"""What a signal ends leaves neither an open transaction nor a member of a group behind; at a question it changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from oncelog.cli import interruption
from oncelog.cli.interruption import asked, run
from oncelog.cli.signals import ENDING, Signalled, ending_signals, raise_signalled
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


CTRL_C, CTRL_D = b"\x03", b"\x04"


def at_a_question(*command: str, question: bytes, answer: bytes | signal.Signals) -> tuple[int, str]:
    """Run it on a terminal of its own and answer its question by keys or a signal; its status, and what the terminal showed."""
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "oncelog", *command],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY, 0),  # Ctrl-C comes from the terminal itself
    ) as process:
        try:
            shown = b""
            while question not in shown:
                shown += os.read(keyboard, 1000)
            if isinstance(answer, bytes):
                os.write(keyboard, answer)
            else:
                process.send_signal(answer)
            status = process.wait(30)
        finally:
            process.kill()
            os.close(terminal)
        with contextlib.suppress(OSError):  # the terminal's other side is closed
            while more := os.read(keyboard, 1000):
                shown += more
        os.close(keyboard)
    return status, shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("answer", "status", "line"),
    [
        (CTRL_C, 130, "interrupted: nothing was changed"),
        (signal.SIGTERM, 143, "terminated: nothing was changed"),
        (signal.SIGHUP, 129, "hung up: nothing was changed"),
        (CTRL_D, 1, "error: no answer, nothing was changed"),
    ],
)
def test_a_question_is_left_at_once_and_nothing_is_changed(
    cli: Cli, answer: bytes | signal.Signals, status: int, line: str
) -> None:
    if "kept" not in {row["topic"] for row in cli.json("topics", "list")}:
        cli.create("kept")
    command = ("-b", cli.bootstrap_servers, "topics", "delete", "kept")
    assert_ends(at_a_question(*command, question=b"go on", answer=answer), status, line)
    assert cli.json("topics", "describe", "kept")


def assert_ends(ended: tuple[int, str], status: int, line: str) -> None:
    assert (ended[0], ended[1].splitlines()[-1]) == (status, line)
    assert "Traceback" not in ended[1]


def test_a_password_is_not_waited_for_either(cli: Cli) -> None:
    command = ("-b", cli.bootstrap_servers, "credentials", "set", "nobody", "--yes")
    ended = at_a_question(*command, question=b"password of nobody: ", answer=CTRL_C)
    assert_ends(ended, 130, "interrupted: nothing was changed")
    assert "\n\n" not in ended[1]
    assert cli.json("credentials", "list") == []


def test_a_signal_just_before_the_read_ends_it_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is heard by Python before the read begins, and the read would wait for the next key."""
    keyboard, terminal = pty.openpty()
    select = interruption.select.select

    def signalled_first(*files: list[int]) -> object:
        handler = signal.signal(signal.SIGTERM, lambda *_: None)  # heard, and not raised until the call is over
        os.kill(os.getpid(), signal.SIGTERM)
        signal.signal(signal.SIGTERM, handler)
        found = select(*files, 30)
        assert found[0], "it would wait for a key"
        raise_signalled(signal.SIGTERM)

    with open(terminal, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr(interruption.select, "select", signalled_first)
        with pytest.raises(Signalled):
            asked("sure")
    os.close(keyboard)


def test_a_password_is_typed_twice_and_unseen(cli: Cli) -> None:
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-m", "oncelog", "-b", cli.bootstrap_servers, "credentials", "set", "typed", "--yes"]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        shown = b""
        for question, answer in (
            (b"of typed: ", b"first"),
            (b"once more: ", b"two"),
            (b"of typed: ", b"s"),
            (b"more: ", b"s"),
        ):
            before = len(shown)
            while question not in shown[before:]:
                shown += os.read(keyboard, 1000)
            os.write(keyboard, answer + b"\n")
        assert process.wait(30) == 0
        assert termios.tcgetattr(terminal)[3] & termios.ECHO
    os.close(terminal)
    os.close(keyboard)
    assert b"first" not in shown
    assert b"the two are not the same" in shown
    cli("credentials", "remove", "typed", "-y")


def test_what_a_body_awaits_at_its_end_is_not_cut_by_the_signal_that_it_was_left_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full pipe raised it, and then the loop came to it once more: a member's place was not given back."""
    monkeypatch.setattr(ENDING, "number", 0)
    awaited = []

    async def body() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            assert ENDING.is_unheard()
            raise_signalled(ENDING.number)
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            awaited.append(1)

    with pytest.raises(Signalled):
        run(body())
    assert awaited == [1]


def test_a_signal_before_the_body_began_ends_it_without_a_warning() -> None:
    async def body() -> None:
        pytest.fail("it began")

    def signalled_at_once(work: object) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        return asyncio.run(work)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oncelog.cli.interruption.asyncio", _Asyncio(signalled_at_once))
        with pytest.raises(Signalled) as raised:
            run(body())
    assert raised.value.number is signal.SIGTERM


class _Asyncio:
    """asyncio whose `run` is another."""

    CancelledError = asyncio.CancelledError
    current_task = staticmethod(asyncio.current_task)
    get_running_loop = staticmethod(asyncio.get_running_loop)

    def __init__(self, run: object) -> None:
        self.run = run


def test_a_body_that_ends_well_although_it_was_told_to_end_has_ended_well() -> None:
    async def body() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return "done"

    assert run(body()) == "done"


def test_under_nohup_a_lost_terminal_ends_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending_signals() == (signal.SIGINT, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)
