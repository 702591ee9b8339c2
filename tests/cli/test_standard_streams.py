"""A process whose standard input, output or error was closed, or is full: it ends as any other, and says so in one line."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from oncelog.testing import TestBroker
from tests.cli.world import Cli

CLOSED = "import os, sys\n{}\nos.execv(sys.executable, [sys.executable, '-m', 'oncelog', *sys.argv[1:]])"
needs_full = pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="there is no /dev/full here")


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_service_whose_standard_streams_are_closed_stops_in_good_order(
    tmp_path: pathlib.Path, closed: tuple[int, ...]
) -> None:
    """The event loop's own descriptors took their numbers, and libuv ended the process by SIGABRT when it closed them."""
    program = CLOSED.format("\n".join(f"os.close({number})" for number in closed))
    served = subprocess.Popen(
        [sys.executable, "-c", program, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("data/meta.properties")):
            assert time.monotonic() < deadline
            os.sched_yield()
        if 1 not in closed:
            assert served.stdout is not None
            assert served.stdout.readline().startswith(b"ready ")
        served.send_signal(signal.SIGTERM)
        _, told = served.communicate(timeout=30)
        assert served.returncode in ((0,) if 1 not in closed else (0, 143)), told  # 143: it was not ready yet
        assert b"Assertion" not in told
    finally:
        served.kill()
        served.wait()


@needs_full
@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--help"),
        ("topics", "--help"),
        ("--version",),
        ("completion", "bash"),
        ("completion", "bash", "--output", "table"),
        ("doctor",),
        ("doctor", "-o", "json"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "oncelog", *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"error: cannot write to stdout: No space left on device\n")


@needs_full
def test_rows_and_records_that_do_not_fit_are_said_as_well(cli: Cli) -> None:
    """It was `[Errno 28] No space left on device`, of what it did not say."""
    cli.create("unfitting")
    cli("produce", "unfitting", stdin="one\n")
    for arguments in (("topics", "list"), ("topics", "list", "-o", "json"), ("consume", "unfitting", "-e")):
        command = [sys.executable, "-m", "oncelog", "-b", cli.bootstrap_servers, *arguments]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (1, b"error: cannot write to stdout: No space left on device\n")


@pytest.mark.parametrize(
    ("program", "words"),
    [("oncelog", ("-b", "{}", "features", "describe")), ("kafka_transactions", ("--bootstrap-server", "{}", "list"))],
)
def test_a_file_that_may_not_grow_is_said_as_well(
    cli: Cli, tmp_path: pathlib.Path, program: str, words: tuple[str, ...]
) -> None:
    code = (
        f"import resource; from oncelog.cli.entry_points import {program}\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n{program}()"
    )
    command = [sys.executable, "-c", code, *(word.format(cli.bootstrap_servers) for word in words)]
    with open(tmp_path / "out", "wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"error: cannot write to stdout: File too large\n")


@needs_full
def test_a_broker_that_cannot_say_that_it_is_ready_stops() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "oncelog", "serve", "--ephemeral", "--listen", "127.0.0.1:0"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    said = b"oncelog serve: stopped, since nobody can be told that it is ready: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def closed(number: int, *arguments: object) -> tuple[int, bytes]:
    """A command whose descriptor `number` was closed before it began: its exit status, and what it said."""
    command = [sys.executable, "-c", CLOSED.format(f"os.close({number})"), *map(str, arguments)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(command, timeout=60, check=False, **pipes)
    return done.returncode, done.stderr


SAID = (
    b"error: standard output is closed: nobody would get what this command writes"
    b" (send it somewhere: `> FILE`, or `> /dev/null` where nobody wants it)\n"
)


def test_what_writes_rows_ends_before_it_reads_anything_where_stdout_is_closed(tmp_path: pathlib.Path) -> None:
    """A group's positions went on behind records that nobody got, with exit status 0."""
    with TestBroker(data_dir=str(tmp_path / "data")) as broker:
        at = ("-b", broker.bootstrap_servers)
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        cli("produce", "t", stdin="a\nb\n")
        for arguments in (
            (*at, "consume", "t", "-e", "--group", "g"),
            (*at, "consume", "t", "-e", "-o", "jsonl"),
            (*at, "topics", "list"),
            (*at, "topics", "list", "-o", "json"),
            (*at, "topics", "delete", "t", "--dry-run"),
            ("dump-log", tmp_path / "data"),
        ):
            assert closed(1, *arguments) == (1, SAID), arguments
        assert cli("groups", "list", "-o", "jsonl").stdout == ""
        assert closed(1, *at, "topics", "create", "u") == (0, b""), "it is for what it does"
        assert '"u"' in cli("topics", "list", "-o", "jsonl").stdout


# one signal, whoever is at the other end


@contextlib.contextmanager
def a_pipe(*, is_full: bool = False) -> Iterator[tuple[int, int]]:
    """Its two ends, which stay open."""
    end, begin = os.pipe()
    if is_full:
        os.set_blocking(begin, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(begin, b"." * 4096)
        os.set_blocking(begin, True)
    try:
        yield end, begin
    finally:
        os.close(end)
        os.close(begin)


def size_of(pipe: int) -> int:
    """How much is in it."""
    found = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


def wait_until_signals_are_heard(process: subprocess.Popen[bytes]) -> None:
    """The interpreter itself takes none yet; from here on the command has begun."""
    status, caught = pathlib.Path(f"/proc/{process.pid}/status"), f"{1 << (signal.SIGHUP - 1):x}"
    while True:
        lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
        if int(lines["SigCgt"], 16) & int(caught, 16):
            return
        assert process.poll() is None
        os.sched_yield()


on_linux = pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="there is no /proc here")
ENDS = {130: signal.SIGINT, 143: signal.SIGTERM, 129: signal.SIGHUP}
# As many bytes as a pipe takes, less than one write.
NEARLY_FULL_BYTES = (1 << 16) - (1 << 13)


@pytest.fixture(scope="module")
def much(cli: Cli) -> str:
    """A topic of more than a pipe takes."""
    cli.create("much")
    cli("produce", "much", stdin=("y" * 500 + "\n") * 1000)
    return "much"


@pytest.fixture(scope="module")
def numbered(cli: Cli) -> str:
    """The same, and each line with its offset."""
    cli.create("numbered")
    cli("produce", "numbered", stdin="".join(f"{number} {'y' * 500}\n" for number in range(1000)))
    return "numbered"


@on_linux
@pytest.mark.parametrize("seed", range(3))
def test_one_signal_ends_what_nobody_reads_or_writes_at_any_moment(cli: Cli, much: str, seed: int) -> None:
    """It did nothing while the command stood in a read or write: only the second one ended it."""
    draw = random.Random(seed)
    quiet, blocked = ("stdin",), ("stdout",)
    commands: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (quiet, ("credentials", "set", f"never-set-{seed}", "--yes")),
        (quiet, ("produce", much)),
        (quiet, ("produce", much, "--transactional-id", f"nobody-writes-{seed}")),
        (quiet, ("check-history", "-")),
        (quiet, ("topics", "list", "--command-config", "/dev/stdin")),
        (blocked, ("consume", much, "-e")),
        (blocked, ("consume", much, "--group", f"nobody-reads-{seed}")),
        (blocked, ("consume", much, "-e", "-o", draw.choice(["json", "jsonl", "tsv", "wide"]))),
        (blocked, ("topics", "list", "--watch")),
        (blocked, ("watch",)),
        (blocked, ("doctor",)),
        (("stdout", "stderr"), ("consume", "no-such-topic")),
        (("stdout", "stderr"), ("serve", "--ephemeral", "--listen", "127.0.0.1:0", "--log-level", "debug")),
    ]
    with a_pipe() as (empty, _), a_pipe(is_full=True) as (_, full):
        for names, arguments in draw.sample(commands, 4) if seed else commands:
            before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDS.values()}
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
            streams |= {name: empty if name == "stdin" else full for name in names}
            words = [*(("-b", cli.bootstrap_servers) if arguments[0] != "serve" else ()), *arguments]
            process = subprocess.Popen([sys.executable, "-m", "oncelog", *words], **streams)
            for number, handler in before.items():
                signal.signal(number, handler)
            try:
                wait_until_signals_are_heard(process)
                moment_s, status = draw.uniform(0, 2), draw.choice(list(ENDS))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(moment_s)
                process.send_signal(ENDS[status])
                _, told = process.communicate(timeout=20)  # 5 s, and what a machine with other work needs
                assert process.returncode == status or arguments[0] == "serve", (arguments, moment_s, told)
                assert b"Traceback" not in (told or b"")
            finally:
                process.kill()
                process.wait()
    assert cli.json("credentials", "list") == []
    groups = {row["group"]: row["state"] for row in cli.json("groups", "list")}
    assert groups.get(f"nobody-reads-{seed}", "Empty") == "Empty"


@on_linux
@pytest.mark.parametrize("form", ["table", "jsonl", "tsv"])
def test_a_member_that_is_ended_while_the_pipe_is_full_has_stored_what_came_out_whole(
    cli: Cli, numbered: str, form: str
) -> None:
    """What stood in the pipe behind the last batch was printed again by the next member."""
    group = f"reads-late-{form}"
    words = ["-b", cli.bootstrap_servers, "consume", numbered, "--group", group, "-o", form, "--no-header"]
    with subprocess.Popen([sys.executable, "-m", "oncelog", *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while size_of(process.stdout.fileno()) < NEARLY_FULL_BYTES:
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        found = process.stdout.read()
        assert process.wait() == 130
    (row,) = cli.json("groups", "describe", group)
    assert row["position"] == found.count(b"\n") > 50


@on_linux
def test_a_member_whose_records_nobody_reads_leaves_its_group_and_stores_the_position_of_what_is_in_the_pipe(
    cli: Cli, numbered: str
) -> None:
    with a_pipe() as (end, begin):
        words = ["-b", cli.bootstrap_servers, "consume", numbered, "--group", "reads-nothing"]
        process = subprocess.Popen([sys.executable, "-m", "oncelog", *words], stdout=begin, stderr=subprocess.PIPE)
        try:
            while size_of(end) < NEARLY_FULL_BYTES:
                os.sched_yield()
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=20)
        finally:
            process.kill()
            process.wait()
        *whole, part = os.read(end, size_of(end)).decode().split("\n")
    assert (process.returncode, told) == (143, b"terminated\n")
    rows = cli("groups", "describe", "reads-nothing", "-o", "jsonl").stdout
    assert '"client": "' not in rows
    following = cli("consume", numbered, "--group", "reads-nothing", "-e", "-c", 1).stdout
    assert int(following.split()[0]) == len(whole)
    assert following.startswith(part), "it came out in part, and so counts as not out"


@on_linux
def test_what_is_read_slowly_is_whole_behind_a_signal(cli: Cli, much: str) -> None:
    """Who reads gets one document of JSON, however late."""
    words = ["-b", cli.bootstrap_servers, "consume", much, "-o", "json"]
    with subprocess.Popen([sys.executable, "-m", "oncelog", *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while size_of(process.stdout.fileno()) < NEARLY_FULL_BYTES:
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        found = process.stdout.read()
        assert process.wait() == 130
    assert len(json.loads(found)) > 50
