"""`oncelog serve --processes N`: one line, one page of numbers, one stop; what dies is started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import pytest
from evidence.world.oncelog_processes import OncelogProcesses

from oncelog.cli.commands import serve
from oncelog.cli.commands.serve import serve_main
from oncelog.cli.commands.serve_processes import Child, _status, commands, readiness, run_processes
from oncelog.core.exposition import merged
from oncelog.core.processes.process_plan import Restarts, metrics_socket, process_plans
from oncelog.host.free_ports import ports_in_a_row
from oncelog.host.http_endpoint import Answer, HttpEndpoint
from oncelog.host.network import NetworkFailed, RealNetwork
from oncelog.sync import Consumer, Producer

TIMEOUT_S = 120  # for a hang


def test_each_process_is_told_who_it_is() -> None:
    words = commands(process_plans(2, "/d", ["h:1000"], {}), "/s", ["--config", "f", "-c", "a=b"])
    assert words[1][1:] == [
        *("-m", "oncelog.cli.commands.serve", "--process", "1/2", "--sockets", "/s", "--parent", str(os.getpid())),
        *("--data-dir", "/d/processes/1"),
        *("--listen", "PLAINTEXT://h:1001", "--config", "f", "-c", "a=b", "-c", "node.id=2", "-c", "metrics.listen="),
    ]


@pytest.mark.parametrize(
    ("statuses", "is_told", "was_ready", "status"),
    [
        ([0, 0], True, True, 0),
        ([0, 1], True, True, 1),
        ([-9, 0], True, True, 1),
        ([143, 0], True, False, 0),
        ([2], False, False, 2),
        ([-15, 2], False, False, 2),
        ([-9, -15], False, False, 1),
    ],
)
def test_the_exit_status(statuses: list[int], is_told: bool, was_ready: bool, status: int) -> None:
    assert _status(statuses, is_told=is_told, was_ready=was_ready) == status


def test_a_life_with_a_death_in_it() -> None:
    metrics = ports_in_a_row("127.0.0.1", 1)
    with OncelogProcesses(2, "-c", f"metrics.listen=127.0.0.1:{metrics}") as cluster:
        with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="t") as producer:
            for number in range(3):
                with producer.transaction():
                    producer.send("a", value=b"%d" % number)
                    producer.send("b", value=b"%d" % number)
                if number < 2:
                    dead = cluster.process_id(number + 1)
                    cluster.kill(number + 1)
                    cluster.start(number + 1)
                    assert cluster.process_id(number + 1) != dead
        with Consumer("a", "b", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            found: list[bytes | None] = []
            while len(found) < 6:
                found += [record.value for record in consumer.poll(1000)]
        assert sorted(found) == [b"0", b"0", b"1", b"1", b"2", b"2"]
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=TIMEOUT_S) as answer:
            page = answer.read().decode()
        processes = {line.partition('process="')[2][:1] for line in page.splitlines() if not line.startswith("#")}
        assert processes == {"0", "1"}
        assert 'oncelog_process_up{process="1"} 1' in page
        assert 'oncelog_process_starts_total{process="1"} 2' in page
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/readyz", timeout=TIMEOUT_S) as answer:
            assert answer.read() == b"ready\n"
        os.kill(cluster.process_id(2), signal.SIGSTOP)
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=TIMEOUT_S) as answer:
            page = answer.read().decode()
        assert 'oncelog_process_up{process="0"} 1' in page
        assert 'oncelog_process_up{process="1"} 0' in page
        ids = [cluster.process_id(node) for node in cluster.nodes]
        assert cluster.stop() == 0
        assert not any(Path(f"/proc/{each}").exists() for each in ids)
        assert (cluster.folder / "log").read_text().count("is started again") == 2
        assert all((folder / ".kafka_cleanshutdown").exists() for folder in folders(cluster))


def folders(cluster: OncelogProcesses) -> list[Path]:
    return [cluster.folder / "data", cluster.folder / "data" / "processes" / "1"]


def test_a_directory_is_served_by_as_many_as_it_has_and_by_others_when_asked() -> None:
    with OncelogProcesses(2) as cluster:
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send("a", value=b"x")
        assert cluster.stop() == 0
        for options, count in (((), 2), (("--processes", "1"), 1), ((), 1), (("--processes", "3"), 3)):
            cluster.start_again(*options)
            assert len(cluster.addresses) == count
            with Consumer("a", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
                found: list[bytes | None] = []
                while not found:
                    found = [record.value for record in consumer.poll(1000)]
            assert found == [b"x"]
            assert cluster.stop() == 0


def test_with_the_first_process_all_end() -> None:
    with OncelogProcesses(2) as cluster:
        words = Path(f"/proc/{cluster.process_id(1)}/cmdline").read_bytes().split(b"\0")
        sockets = Path(os.fsdecode(words[words.index(b"--sockets") + 1]))
        assert (sockets / "metadata").exists()
        watched = [os.pidfd_open(cluster.process_id(node)) for node in cluster.nodes]
        try:
            cluster.kill_the_first()
            for each in watched:  # Linux sends a signal for each thread of a parent that ends
                for number in (signal.SIGHUP, signal.SIGINT):
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(each, number)
            for each in watched:
                ready, _, _ = select.select([each], [], [], TIMEOUT_S)
                assert ready, "a process lives on alone"
        finally:
            for each in watched:
                os.close(each)
        assert not sockets.exists()
        assert all((folder / ".kafka_cleanshutdown").exists() for folder in folders(cluster))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-c", "num.partition=3"], "did you mean num.partitions"),
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--listen", "0.0.0.0:19092"], "(oncelog serve: --insecure)"),
        (["-c", "node.id=x"], "node.id"),
        (["-c", "listeners=PLAINTEXT://127.0.0.1:0"], "name the first"),
    ],
)
def test_what_a_person_got_wrong_is_one_line(arguments: list[str], expected: str) -> None:
    command = [sys.executable, "-m", "oncelog", "serve", "--processes", "2", "--ephemeral", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("listen", "config"),
    [
        (["127.0.0.1:19092", "127.0.0.1:19093"], []),
        (["127.0.0.1:65535"], []),
        (["127.0.0.1:0"], ["num.partition=3"]),
    ],
)
def test_nothing_moves_for_a_start_that_is_refused(
    listen: list[str], config: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog.cli.commands.serve._log_to_stderr", lambda *_: None)  # other tests want their logs
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    (tmp_path / ".kafka_cleanshutdown").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    assert serve_main(data_dir=str(tmp_path), processes=2, listen=listen, config=config) == 2
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("asked", [2, None])
def test_of_several_directories_the_first_is_served_as_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int | None
) -> None:
    """They were kept in a directory whose name was all of `/a,/b`, and shared out in the first."""
    monkeypatch.setattr(serve, "_log_to_stderr", lambda *_: None)  # other tests want their logs
    served: list[str | None] = []

    def share_out(_: object, directory: str, __: int | None) -> int:
        served.append(directory)
        return 2

    def serve_processes(_: int, directory: str | None, *__: object) -> int:
        served.append(directory)
        return 0

    monkeypatch.setattr(serve, "share_out", share_out)
    monkeypatch.setattr(serve, "_serve_processes", serve_processes)
    first, both = str(tmp_path / "a"), f"{tmp_path / 'a'},{tmp_path / 'b'}"
    assert serve_main(processes=asked, config=(f"log.dirs={both}",)) == 0
    assert served == [first, first]


def test_a_directory_of_all_the_names_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "_log_to_stderr", lambda *_: None)
    both = f"{tmp_path / 'a'},b"
    (tmp_path / "a,b").mkdir()
    assert serve_main(processes=2, config=(f"log.dirs={both}",)) == 2
    assert "an earlier oncelog took log.dirs for its name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("x" * 100, "too long for the sockets where the processes meet"), ("missing", "name another one, TMPDIR=DIR")],
)
def test_where_they_meet_must_be_possible(
    folder: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if folder != "missing":
        (tmp_path / folder).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / folder))
    with pytest.raises(NetworkFailed, match=expected):
        asyncio.run(run_processes(process_plans(2, "/d", ["h:1000"], {}), [], ""))
    assert list(tmp_path.rglob("oncelog-*")) == []


def test_a_process_that_stands_still_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.cli.commands.serve_processes.SCRAPE_S", 0.02)
    children = [Child(plan, []) for plan in process_plans(3, "/d", ["h:1000"], {})]

    async def asked(sockets: str) -> list[Answer]:
        network = RealNetwork()
        said: list[Answer] = []
        bodies = {1: "ready\n", 3: "ready; offline partitions: 2\n"}
        listeners = [
            await network.listen(
                f"unix:{metrics_socket(sockets, node)}", 0, HttpEndpoint(lambda _, b=body: ("200 OK", b))
            )
            for node, body in bodies.items()
        ]
        with socket.socket(socket.AF_UNIX) as still:
            still.bind(metrics_socket(sockets, 2))
            still.listen()
            for each in children:
                each.ready = "ready h:1000 node=1 cluster=c"
            said.append(await readiness(children, sockets))
            children[2].ready = ""
            said.append(await readiness(children, sockets))
            children[2].ready = "ready h:1000 node=3 cluster=c"
        said += [await readiness(each, sockets) for each in (children[:1], children[::2])]
        for listener in listeners:
            listener.close()
        return said

    with tempfile.TemporaryDirectory() as sockets:
        assert asyncio.run(asked(sockets)) == [
            ("503 Service Unavailable", "not ready: process 1\n"),
            ("503 Service Unavailable", "not ready: process 1, 2\n"),
            ("200 OK", "ready\n"),
            ("200 OK", "ready; offline partitions: 2\n"),
        ]


def test_a_stop_does_not_wait_for_the_pause_before_a_new_start() -> None:
    async def work() -> None:
        plan = process_plans(1, "/d", ["h:1000"], {})[0]
        child = Child(plan, [sys.executable, "-c", "print('ready x', flush=True); raise SystemExit(3)"])
        living = asyncio.ensure_future(child.run())
        await child.first_ready.wait()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Restarts, "pause_s", lambda _self, _lived_s: 3600.0)
            while child.pid:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
            child.stop()
            assert await asyncio.wait_for(living, TIMEOUT_S) == 3

    asyncio.run(work())


def test_pages_of_numbers_are_put_together() -> None:
    page = '# HELP a Says.\n# TYPE a counter\na 1\n# HELP b Says.\n# TYPE b histogram\nb_bucket{le="1"} 2\nb_sum 3\n'
    assert merged({"0": page, "1": page}).splitlines() == [
        "# HELP a Says.",
        "# TYPE a counter",
        'a{process="0"} 1',
        'a{process="1"} 1',
        "# HELP b Says.",
        "# TYPE b histogram",
        'b_bucket{process="0",le="1"} 2',
        'b_sum{process="0"} 3',
        'b_bucket{process="1",le="1"} 2',
        'b_sum{process="1"} 3',
    ]


def test_a_signal_before_it_is_ready_ends_it() -> None:
    command = [sys.executable, "-m", "oncelog", "serve", "--processes", "2", "--ephemeral", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode in (0, 143, -signal.SIGTERM), errors
    assert "Traceback" not in errors, errors
    assert "ready" not in output
