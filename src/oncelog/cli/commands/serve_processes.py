"""`oncelog serve --processes N`: starts the processes of one broker, starts again what ends, and stops them together.

Each is `oncelog serve` with a number. This process serves no client: it has their one `ready` line, their one `/metrics`, and
their signals. Where it is killed, they stop, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Container, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from oncelog.cli.signals import CUT_SHORT, end_at_once, hear_in_loop, hear_only_interrupts, pass_over_repeats
from oncelog.core.access.listeners import named_address
from oncelog.core.exposition import NamedFamily, exposition, merged
from oncelog.core.processes.process_plan import ProcessPlan, Restarts, metrics_socket
from oncelog.core.readiness import offline_count_of, readiness_body
from oncelog.host.http_endpoint import NOT_FOUND, Answer, HttpEndpoint
from oncelog.host.network import NetworkFailed, RealNetwork
from oncelog.host.tasks import Tasks

_log = logging.getLogger("oncelog.processes")

FIRST_ALONE_S = 5.0
SCRAPE_S = 5.0
PAGE_SIZE_BYTES_MAX = 64 << 20
SOCKET_PATH_BYTES_MAX = 103  # macOS; Linux takes 107
KILL_AFTER_S = 60.0  # a stop drains for ten seconds, and then syncs


PROCESS_UP = NamedFamily(
    "oncelog_process_up", "gauge", "1 where this process answered, 0 where its samples are missing here."
)
PROCESS_STARTS = NamedFamily("oncelog_process_starts_total", "counter", "How often this process was started.")


class Child:
    """One process, through all its lives."""

    def __init__(self, plan: ProcessPlan, command: Sequence[str]) -> None:
        self.plan = plan
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self.ready = ""  # its line, while it is ready
        self.start_count = 0
        self.first_ready = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stopping.is_set()

    @property
    def pid(self) -> int:
        """Its process id; 0 while there is none."""
        return 0 if self._process is None or self._process.returncode is not None else self._process.pid

    async def run(self) -> int:
        """Live until it is told to stop, or has never been ready: its exit status."""
        restarts, loop = Restarts(), asyncio.get_running_loop()
        while True:
            began = loop.time()
            status = await self._live()
            if self._is_over():
                return status
            pause_s = restarts.pause_s(loop.time() - began)
            how = f"signal {-status}" if status < 0 else f"status {status}"
            _log.error("process %d ended with %s and is started again in %.1f s", self.plan.index, how, pause_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            if self._is_over():
                return status

    def _is_over(self) -> bool:
        return self.is_stopping or not self.first_ready.is_set()

    async def _live(self) -> int:
        # A session of its own: Ctrl-C at a terminal is for the first process, which tells the others.
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        self._process, self.start_count = process, self.start_count + 1
        if self.is_stopping:
            self.signal(signal.SIGTERM)
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                if line.startswith(b"ready "):
                    self.ready = line.decode("ascii", "replace").strip()
                    self.first_ready.set()
            return await process.wait()
        finally:
            self.ready = ""

    def signal(self, number: int) -> None:
        """Send it a signal, where it lives."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def stop(self) -> None:
        """Have it end in order, also where somebody made it stand still."""
        self._stopping.set()
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)


def commands(plans: Sequence[ProcessPlan], sockets: str, options: Sequence[str]) -> list[list[str]]:
    """How each is started; `options` are the same for all."""
    return [
        [
            *(sys.executable, "-m", "oncelog.cli.commands.serve"),
            *("--process", f"{plan.index}/{len(plans)}", "--sockets", sockets, "--parent", str(os.getpid())),
            *("--data-dir", plan.data_directory),
            *(word for each in plan.listen for word in ("--listen", each)),
            *options,
            *(word for key, value in plan.values.items() for word in ("-c", f"{key}={value}")),
        ]
        for plan in plans
    ]


async def run_processes(plans: Sequence[ProcessPlan], options: Sequence[str], metrics_listen: str) -> int:
    """Serve until a signal comes; the exit status. Raises NetworkFailed."""
    with _folder_of_sockets(plans) as sockets:
        children = [
            Child(plan, command) for plan, command in zip(plans, commands(plans, sockets, options), strict=True)
        ]
        async with _metrics(children, sockets, metrics_listen):
            return await _run(children, sockets)


@contextmanager
def _folder_of_sockets(plans: Sequence[ProcessPlan]) -> Iterator[str]:
    """Where they meet, for as long as they run. Raises NetworkFailed where there cannot be one."""
    try:
        made = tempfile.TemporaryDirectory(prefix="oncelog-", ignore_cleanup_errors=True)
    except OSError as error:
        raise NetworkFailed(
            f"no folder can be made where the processes meet: {error.strerror or error}: name another one, TMPDIR=DIR"
        ) from error
    with made as sockets:
        longest = max(len(os.fsencode(metrics_socket(sockets, plan.node_id))) for plan in plans)
        if longest > SOCKET_PATH_BYTES_MAX:
            raise NetworkFailed(
                f"{os.path.dirname(sockets)}: too long for the sockets where the processes meet ({longest} bytes, at most "
                f"{SOCKET_PATH_BYTES_MAX}): name a shorter one, TMPDIR=/tmp"
            )
        yield sockets


async def _run(children: Sequence[Child], sockets: str) -> int:
    loop, tasks = asyncio.get_running_loop(), Tasks(_failed)
    stopped = asyncio.Event()

    def stop(number: int) -> None:
        if not stopped.is_set():
            stopped.set()
            pass_over_repeats(loop, stop)
        else:
            for child in children:
                child.signal(signal.SIGKILL)
            shutil.rmtree(sockets, ignore_errors=True)
            end_at_once(number, detail=CUT_SHORT)

    hear_in_loop(loop, stop)
    waits, ready = tasks.start(stopped.wait()), tasks.start(_all_ready(children))
    first = tasks.start(children[0].run())
    # What is wrong for all is said by the first alone. One that has much to recover is not waited for: the others do the same.
    began = tasks.start(children[0].first_ready.wait())
    await asyncio.wait((waits, first, began), timeout=FIRST_ALONE_S, return_when=asyncio.FIRST_COMPLETED)
    lives = [first]
    if not stopped.is_set() and not first.done():
        lives += [tasks.start(child.run()) for child in children[1:]]
    try:
        await asyncio.wait((waits, ready, *lives), return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            print(_ready_line(children), flush=True)
            await asyncio.wait((waits, *lives), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for child in children:
            child.stop()
        _, late = await asyncio.wait(lives, timeout=KILL_AFTER_S)
        for child in children if late else ():
            child.signal(signal.SIGKILL)
        statuses = await asyncio.gather(*lives)
        was_ready = ready.done()
        await tasks.close()
    hear_only_interrupts()
    return _status(statuses, is_told=stopped.is_set(), was_ready=was_ready)


def _status(statuses: Sequence[int], *, is_told: bool, was_ready: bool) -> int:
    """The whole's exit status: what a process had to complain about at the start; 0 where all ended in order when told to."""
    wrong = [status for status in statuses if status != 0]
    if is_told:
        return 1 if wrong and was_ready else 0
    complaints = [status for status in wrong if status > 0]
    return complaints[0] if complaints else 1


def _failed(error: BaseException) -> None:
    _log.critical("looking after the processes failed: %r", error, exc_info=error)


async def _all_ready(children: Sequence[Child]) -> None:
    for child in children:
        await child.first_ready.wait()


def _ready_line(children: Sequence[Child]) -> str:
    words = [child.ready.split() for child in children]
    addresses = ",".join(each[1] for each in words if len(each) > 1)
    nodes = ",".join(str(child.plan.node_id) for child in children)
    cluster = next((word for word in words[0] if word.startswith("cluster=")), "")
    return f"ready {addresses} node={nodes} {cluster} processes={len(children)}"


# one page of metrics


@asynccontextmanager
async def _metrics(children: Sequence[Child], sockets: str, metrics_listen: str) -> AsyncIterator[None]:
    if not metrics_listen:
        yield
        return
    writing = asyncio.Lock()

    async def page() -> Answer:
        async with writing:
            pages = await asyncio.gather(*(_page(sockets, child, "/metrics") for child in children))
        found = {str(child.plan.index): text for child, text in zip(children, pages, strict=True) if text}
        return "200 OK", (merged(found) if found else "") + _of_processes(children, found)

    def answer(path: str) -> Answer | Awaitable[Answer]:
        if path == "/metrics":
            return page()
        if path == "/livez":
            return "200 OK", "alive\n"
        if path == "/readyz":
            return readiness(children, sockets)
        return NOT_FOUND

    address = named_address(metrics_listen)
    listener = await RealNetwork().listen(address.host, address.port, HttpEndpoint(answer))
    try:
        yield
    finally:
        listener.close()


def _of_processes(children: Sequence[Child], found: Container[str]) -> str:
    """What only the first one knows: who answers, and who died how often."""
    names = {child: {"process": str(child.plan.index)} for child in children}
    up = [("", labels, float(labels["process"] in found)) for labels in names.values()]
    starts = [("", labels, float(child.start_count)) for child, labels in names.items()]
    return exposition([(PROCESS_UP, up), (PROCESS_STARTS, starts)])


async def readiness(children: Sequence[Child], sockets: str) -> Answer:
    """Whether all are ready, and who is not: one that stands still has said that it was, and does not say so now. Partitions
    that are offline are told as one broker does: each is led by one process."""
    answers = await asyncio.gather(*(_page(sockets, child, "/readyz") for child in children))
    away = [str(each.plan.index) for each, text in zip(children, answers, strict=True) if not (each.ready and text)]
    if away:
        return "503 Service Unavailable", f"not ready: process {', '.join(away)}\n"
    return "200 OK", readiness_body(sum(offline_count_of(text) for text in answers))


async def _page(sockets: str, child: Child, path: str) -> str:
    """What a process answers; "" where it does not, or says no."""
    try:
        async with asyncio.timeout(SCRAPE_S):
            reader, writer = await asyncio.open_unix_connection(metrics_socket(sockets, child.plan.node_id))
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode("ascii"))
                answer = bytearray()
                while (part := await reader.read(1 << 20)) and len(answer) <= PAGE_SIZE_BYTES_MAX:
                    answer += part
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    return body.decode("utf-8", "replace") if head.startswith(b"HTTP/1.1 200") else ""
