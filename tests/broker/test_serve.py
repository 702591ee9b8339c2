"""`oncelog serve` as a process: its first line, its exit statuses, its signals."""

import os
import signal
import subprocess
import sys

import pytest

from oncelog.cli.commands.serve import _config_values
from oncelog.testing import TestBroker

TIMEOUT_S = 120  # for a hang


def serve(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "oncelog.cli.commands.serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ready_then_a_signal_ends_it_with_0(tmp_path):
    process = serve("--data-dir", tmp_path, "--listen", "127.0.0.1:0")
    words = process.stdout.readline().split()
    assert words[0] == "ready"
    assert words[1].startswith("127.0.0.1:")
    assert words[2] == "node=1"
    second = serve("--data-dir", tmp_path, "--listen", "127.0.0.1:0")
    output, errors = second.communicate(timeout=TIMEOUT_S)
    assert (second.returncode, output, errors.count("\n")) == (2, "", 1)
    assert "another server" in errors
    busy = serve("--ephemeral", "--listen", words[1])
    output, errors = busy.communicate(timeout=TIMEOUT_S)
    assert (busy.returncode, output, errors.count("\n")) == (2, "", 1)
    assert "in use" in errors
    process.send_signal(signal.SIGTERM)
    rest, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, rest, errors) == (0, "", "")
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-c", "num.partition=3"], "did you mean num.partitions"),
        (["-c", "num.partitions=x"], "whole number"),
        (["-c", "nonsense"], "KEY=VALUE"),
        (["-c", "super.users=${env:WHO}"], "super.users: ${env:...}: config.providers names no provider 'env'"),
        (["--config", "/nonexistent/server.properties"], "No such file"),
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--listen", "[::1:21101"], "a bracket is missing: expected [HOST]:PORT"),
        (["--listen", "::1]:21101"], "a bracket is missing: expected [HOST]:PORT"),
        (
            ["--listen", "127.0.0.1:21801", "--listen", "127.0.0.1:21801"],
            "127.0.0.1:21801: the address stands there twice",
        ),
        (["--listen", "0.0.0.0:0"], "allow it with oncelog.insecure.listeners=true (oncelog serve: --insecure)"),
        (["-c", "sasl.jaas.config=very-secret-word"], "-c sasl.jaas.config: whoever lists processes reads it there"),
        (["-c", "listener.name.x.plain.sasl.jaas.config=very-secret-word"], "whoever lists processes"),
        (["--data-dir", "/nonexistent/data"], "/nonexistent/data was named as well"),
        (["--data-dir", ""], "--data-dir names nothing"),
        (["--data-dir", " "], "--data-dir names nothing"),
        (["--config", " "], "--config names nothing"),
        (["-c", "log.dirs="], "log.dirs='': expected directories, and an empty name is none"),
        (["-c", "log.dirs=,/nonexistent/data"], "/nonexistent/data was named as well"),
        (["-c", "log.dirs=/nonexistent/data"], "/nonexistent/data was named as well"),
    ],
)
def test_what_a_person_got_wrong_is_one_line(arguments, expected):
    process = serve("--ephemeral", *arguments)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, output, errors.count("\n")) == (2, "", 1)
    assert expected in errors
    assert "very-secret-word" not in errors


def test_a_file_with_passwords_that_others_can_read_is_refused(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("ssl.key.password=very-secret-word\n")
    file.chmod(0o644)
    _, errors = serve("--ephemeral", "--config", file).communicate(timeout=TIMEOUT_S)
    assert (errors.count("\n"), "very-secret-word" in errors) == (1, False)
    assert f"others can read it: chmod 600 {file}" in errors


def test_a_file_with_passwords_that_only_its_owner_reads_is_taken(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("ssl.key.password=very-secret-word\n")
    for mode in (0o600, 0o640):
        file.chmod(mode)
        assert _config_values(str(file), []) == {"ssl.key.password": "very-secret-word"}


FULL_DISK = """
import errno, os, sys
from oncelog.cli.commands import serve

def full(*_):
    raise OSError(errno.ENOSPC, "full")

os.pwrite = os.pwritev = full
sys.exit(serve.main(sys.argv[1:]))
"""


def test_a_full_disk_is_one_line_with_what_to_do(tmp_path):
    # In a process of its own: `serve` takes over the signals and the log of the one it runs in.
    words = ["--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    done = subprocess.run([sys.executable, "-c", FULL_DISK, *words], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "No space left on device: make room on that disk" in done.stderr


def test_an_open_address_by_word_of_command():
    for insecure in (["--insecure"], ["-c", "oncelog.insecure.listeners=true"]):
        process = serve("--ephemeral", "--listen", "0.0.0.0:0", *insecure)
        assert process.stdout.readline().startswith("ready localhost:")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=TIMEOUT_S)
        assert "lets everybody in" in errors


def test_a_properties_file_and_a_warning(tmp_path):
    file = tmp_path / "server.properties"
    elsewhere = tmp_path / "elsewhere.properties"
    elsewhere.write_text(f"data={tmp_path}/data\n")
    elsewhere.chmod(0o600)
    file.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:0\nnum.io.threads=8\nlog.dirs=${{file:{elsewhere}:data}}\nconfig.providers=file\n"
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    process = serve("--config", file)
    assert process.stdout.readline().startswith("ready 127.0.0.1:")
    assert (tmp_path / "data" / "meta.properties").exists()
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert "num.io.threads" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [("--listen", "127.0.0.1:99999"), ("-c", "listeners=PLAINTEXT://127.0.0.1:x"), ("-c", "metrics.listen=:99999")],
)
def test_an_address_that_is_none_is_told_before_a_directory_is_made(tmp_path, arguments):
    process = serve("--data-dir", tmp_path / "new", *arguments)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, output, errors.count("\n")) == (2, "", 1)
    assert "expected HOST:PORT, with a port from 0 to 65535" in errors
    assert not list(tmp_path.iterdir())


TOLD_TO_STOP = """
import asyncio, os, signal, sys
from oncelog.broker import startup
from oncelog.cli.commands.serve import main

async def told(parts):
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(100):
        await asyncio.sleep(0)

startup.STEPS = (*startup.STEPS[:5], ("told to stop", told), *startup.STEPS[5:])
sys.exit(main(["--data-dir", sys.argv[1], "--listen", "127.0.0.1:0"]))
"""


def test_a_signal_while_it_recovers_ends_it_and_after_a_clean_stop_leaves_it_clean(tmp_path):
    def told_to_stop():
        command = [sys.executable, "-c", TOLD_TO_STOP, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        return done.returncode, done.stdout[:5], done.stderr

    assert told_to_stop() == (143, "", "terminated: it was not ready yet\n")
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with TestBroker(data_dir=str(tmp_path)):
        pass
    assert told_to_stop() == (0, "ready", "")
    assert (tmp_path / ".kafka_cleanshutdown").exists()


SLOW_STOP = """
import asyncio, sys
from oncelog.broker.broker import Broker
from oncelog.cli.commands.serve import main

async def stop(self):
    print("stopping", flush=True)
    await asyncio.sleep(1000)

Broker.stop = stop
sys.exit(main(sys.argv[1:]))
"""


NOTHING_IS_A_REPEAT = "from oncelog.cli import signals; signals.REPEATED_WITHIN_S = 0"
EVERYTHING_IS_A_REPEAT = "from oncelog.cli import signals; signals.REPEATED_WITHIN_S = 1000"


def in_the_midst_of_a_stop(code, *more):
    command = [sys.executable, "-c", code, "--ephemeral", "--listen", "127.0.0.1:0", "--log-level", "error", *more]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().startswith("ready ")
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "stopping\n"
    return process


@pytest.mark.parametrize("more", [(), ("--processes", "2")])
@pytest.mark.parametrize(
    ("number", "status", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_second_signal_cuts_a_stop_short_and_says_what_that_means(more, number, status, word):
    at_once = NOTHING_IS_A_REPEAT if number == signal.SIGTERM else ""
    process = in_the_midst_of_a_stop(at_once + (SLOW_PROCESSES if more else SLOW_STOP), *more)
    process.send_signal(number)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    told = f"{word}: the stop was cut short: nothing acknowledged is lost, and the next start recovers\n"
    assert (process.returncode, errors) == (status, told)


STOP_WHEN_TOLD = """
import asyncio, sys
from oncelog.broker.broker import Broker
from oncelog.cli.commands.serve import serve_main
from oncelog.cli.plain_serve import end
from oncelog.cli.signals import end_at_once, hear

whole_stop = Broker.stop

async def stop(self):
    print("stopping", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await whole_stop(self)

Broker.stop = stop
hear(end_at_once)
status = serve_main(ephemeral=True, listen=["127.0.0.1:0"], log_level="error")
end()
print("at its end", flush=True)
sys.stdin.readline()
sys.exit(status)
"""
SLOW_PROCESSES = """
import asyncio, sys
from oncelog.cli.commands import serve_processes
from oncelog.cli.commands.serve import main

def stop(self):
    if self.plan.index == 0:
        print("stopping", flush=True)

serve_processes.Child.stop = stop
sys.exit(main(sys.argv[1:]))
"""


def test_sigterm_and_sighup_that_are_repeated_cut_no_stop_as_service_managers_do_so():
    process = in_the_midst_of_a_stop(EVERYTHING_IS_A_REPEAT + STOP_WHEN_TOLD)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM):
        process.send_signal(number)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "at its end\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate("\n", timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (0, "")


def test_a_directory_that_may_not_be_entered_is_told_with_what_is_needed(tmp_path):
    """A refusal stands for that of the system, which root does not get."""
    forbidden = FULL_DISK.replace("ENOSPC", "EACCES").replace("os.pwrite = os.pwritev = full", "os.stat = full")
    words = ["--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    done = subprocess.run([sys.executable, "-c", forbidden, *words], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "Permission denied: all of a data directory must be the user's that the broker runs as" in done.stderr
