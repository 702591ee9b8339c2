"""Who hears the signals that end a command, and what is said of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import FrameType

import pytest

from oncelog.cli.signals import (
    WORDS,
    Signalled,
    hear,
    heard_by,
    line_of,
    raise_signalled,
    status_after,
    status_of,
)


def test_the_status_is_what_a_shell_counts() -> None:
    assert [status_after(number) for number in WORDS] == [130, 143, 129]
    assert status_of(KeyboardInterrupt()) == 130
    assert status_of(Signalled(signal.SIGHUP)) == 129


def test_the_line_says_which_and_what_else_there_is_to_say() -> None:
    assert line_of(KeyboardInterrupt()) == "interrupted"
    assert line_of(Signalled(signal.SIGTERM)) == "terminated"
    assert line_of(Signalled(signal.SIGHUP, "nothing was changed")) == "hung up: nothing was changed"


@pytest.mark.parametrize("number", WORDS)
def test_a_signal_is_raised_where_that_was_asked_for_and_heard_as_before_behind_it(number: int) -> None:
    heard: list[int] = []

    def note(told: int, _: FrameType | None) -> None:
        heard.append(told)

    with heard_by(note):
        with pytest.raises(Signalled) as raised, heard_by(raise_signalled):
            os.kill(os.getpid(), number)
        assert raised.value.number == number
        os.kill(os.getpid(), number)
    assert heard == [number]


def test_what_was_ignored_from_the_start_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with heard_by(raise_signalled):
            os.kill(os.getpid(), signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_is_told_of_none_and_does_not_fail() -> None:
    before = [signal.getsignal(number) for number in WORDS]
    failed: list[BaseException] = []

    def hears() -> None:
        try:
            with heard_by(raise_signalled):
                hear(raise_signalled)
        except (ValueError, Signalled) as error:
            failed.append(error)

    thread = threading.Thread(target=hears)
    thread.start()
    thread.join()
    assert failed == []
    assert [signal.getsignal(number) for number in WORDS] == before


def test_an_end_at_once_needs_no_terminal() -> None:
    code = (
        "import os, signal; from oncelog.cli.signals import end_at_once\n"
        "os.close(2)\nend_at_once(signal.SIGHUP)\nraise AssertionError"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 129
