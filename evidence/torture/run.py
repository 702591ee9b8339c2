"""The torture itself: `cancelled` and `wrong_arguments` give what must not be, each with what repeats it.

Nothing hangs, nothing is left open, every error is one of ours, and the client goes on working.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import inspect
import logging
import random
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from evidence.torture.producers import Copying
from evidence.torture.strike import Strike
from evidence.torture.subjects import SUBJECTS, Subject
from evidence.torture.wrong import told, wrong_of
from oncelog import Admin, Consumer, Delivery, Producer
from oncelog.client.config import AdminConfig, ConsumerConfig, ProducerConfig
from oncelog.errors import OncelogError

HANGS_S = 20.0  # a call: its own timeouts are at most 6 s
STRIKES_PER_CLIENT = 15
BY_HAND = {"put", "commit_transaction", "abort_transaction"}  # several calls of a client, made by its subject
WAITS_OF_A_PROCESS = 60  # about, of a life of `Copying`
CONFIGS: tuple[tuple[Any, Any], ...] = (
    (Consumer, ConsumerConfig),
    (Admin, AdminConfig),
    (Producer, ProducerConfig),
)


@dataclass
class Findings:
    """What must not be, and how much was done."""

    found: list[str] = field(default_factory=list)
    cancellation_count: int = 0
    argument_count: int = 0

    def add(self, what: str, error: BaseException | str) -> None:
        """A finding; an error with the place where it was raised."""
        if isinstance(error, BaseException):
            frames = traceback.extract_tb(error.__traceback__)
            place = f" at {frames[-1].filename.rpartition('/oncelog/')[2]}:{frames[-1].lineno}" if frames else ""
            error = f"{type(error).__name__}: {told(str(error))}{place}"
        self.found.append(f"{what}: {error}")


class _Told(logging.Handler):
    """Errors that a client logs are findings: it "met an error of its own". Not that a stop that was cancelled left records: what
    was told of them is compared with the log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "nobody wait" in record.getMessage():
            return
        because = f" ({record.exc_info[1]!r})" if record.exc_info else ""
        self.lines.append(record.getMessage() + because)


async def cancelled(bootstrap: str, name: str, seed: int, findings: Findings, count: int = STRIKES_PER_CLIENT) -> None:
    """One client, some of its calls cancelled at a drawn wait, once or twice; then used on, then stopped."""
    rng = random.Random(f"cancelled {name} {seed}")

    async def torture(subject: Subject, what: list[str]) -> None:
        waiting = [each for each in subject.calls if each in BY_HAND or _is_async(subject, each)]
        for _ in range(count):
            call = rng.choice(
                waiting if rng.random() < 0.5 else [each for each in waiting if each in BY_HAND] or waiting
            )
            first = int(rng.expovariate(0.15 if call in BY_HAND else 0.5))  # a transaction waits a dozen times
            at = {first, first + rng.randrange(1, 4)} if rng.random() < 0.3 else {first}
            strike = Strike(at, is_late=rng.random() < 0.5)
            what[0] = f"{name}: {call} {strike}, seed {seed}"
            try:
                async with asyncio.timeout(HANGS_S):
                    await strike.around(_awaited(subject, call))
            except (asyncio.CancelledError, OncelogError):
                pass  # cancelled, or refused as it would be without: a group that is not there ...
            findings.cancellation_count += strike.strike_count
        strike = Strike({rng.randrange(10)}, is_late=rng.random() < 0.5)
        if rng.random() < 0.3:
            what[0] = f"{name}: stop {strike}, seed {seed}"
            try:
                await strike.around(_stopped(subject))
            except asyncio.CancelledError:
                findings.cancellation_count += 1
                subject.is_stop_cancelled = True
        else:
            what[0] += ", used on"
            if wrong := await subject.use():
                findings.add(what[0], wrong)

    await _with_client(bootstrap, name, findings, torture)


async def wrong_arguments(bootstrap: str, name: str, seed: int, count: int, findings: Findings) -> None:
    """One client, `count` calls with one argument wrong each; it is used on now and then."""
    rng = random.Random(f"arguments {name} {seed}")

    async def torture(subject: Subject, what: list[str]) -> None:
        with_arguments = [each for each, (some, named) in subject.calls.items() if some or named]
        if getattr(subject, "is_transactional", False):
            await subject.use()  # inside of a transaction, where most arguments matter
        for number in range(count if with_arguments else 0):
            call = rng.choice(with_arguments)
            given, named = subject.calls[call]
            at = rng.randrange(len(given) + len(named))
            if at < len(given):
                given = (*given[:at], wrong_of(given[at], rng), *given[at + 1 :])
            else:
                key = list(named)[at - len(given)]
                named = {**named, key: wrong_of(named[key], rng)}
            texts = [*map(told, given), *(f"{key}={told(value)}" for key, value in named.items())]
            what[0] = f"{name}: {call}({', '.join(texts)})"
            findings.argument_count += 1
            try:
                async with asyncio.timeout(HANGS_S):
                    result = getattr(subject.client, call)(*given, **named)
                    if inspect.isawaitable(result):
                        result = await result
                    for each in result if isinstance(result, list) else [result]:
                        if isinstance(each, Delivery):
                            await each
            except OncelogError:
                pass
            except Exception as error:  # noqa: BLE001 (any but ours is a finding)
                findings.add(what[0], error)
            if number % 5 == 4 and (wrong := await _usable(subject)):
                findings.add(f"{what[0]}, used on", wrong)
                return

    await _with_client(bootstrap, name, findings, torture)


async def cancelled_starts(bootstrap: str, name: str, seed: int, findings: Findings) -> None:
    """A start that is cancelled leaves nothing, whether a stop follows or not."""
    rng = random.Random(f"starts {name} {seed}")
    strike = Strike({int(rng.expovariate(0.2))}, is_late=rng.random() < 0.5)
    async with nothing_left(name, findings) as what, asyncio.timeout(HANGS_S):
        client = await SUBJECTS[name]().unstarted(bootstrap)
        what[0] = f"{name}: start {strike}, seed {seed}"
        with contextlib.suppress(asyncio.CancelledError):
            await strike.around(client.start())
        findings.cancellation_count += strike.strike_count
        if not strike.strike_count or rng.random() < 0.5:
            await client.stop()


async def cancelled_process(bootstrap: str, seed: int, findings: Findings) -> None:
    """Two lives of `oncelog.process` that are cancelled at a drawn wait, and one that is not: each record once."""
    rng = random.Random(f"process {seed}")
    copying = Copying()
    async with nothing_left("process", findings) as what, asyncio.timeout(10 * HANGS_S):
        await copying.start(bootstrap)
        for _ in range(2):
            strike = Strike({rng.randrange(WAITS_OF_A_PROCESS)}, is_late=rng.random() < 0.5)
            what[0] = f"process {strike}, seed {seed}"
            with contextlib.suppress(asyncio.CancelledError):
                await strike.around(copying.run())
            findings.cancellation_count += strike.strike_count
        for wrong in await copying.wrong():
            findings.add(what[0], wrong)


async def wrong_options(bootstrap: str, seed: int, count: int, findings: Findings) -> None:
    """Clients with one wrong option each: refused where they are made or started, or they work."""
    rng = random.Random(f"options {seed}")
    for _ in range(count):
        kind, config = rng.choice(CONFIGS)
        option = rng.choice(dataclasses.fields(config))
        wrong = wrong_of(option.default, rng)
        right = {"bootstrap_servers": bootstrap, "default_api_timeout_ms": 200, "request_timeout_ms": 200}
        findings.argument_count += 1
        told_call = f"{kind.__name__}({option.name}={told(wrong)})"
        async with nothing_left(told_call, findings), asyncio.timeout(HANGS_S):
            try:
                client = kind(**{**right, option.name: wrong})
            except OncelogError:
                continue
            with contextlib.suppress(OncelogError):
                await client.start()
            await client.stop()


def _is_async(subject: Subject, call: str) -> bool:
    return inspect.iscoroutinefunction(getattr(subject.client, call, None))


async def _awaited(subject: Subject, call: str) -> Any:
    return await subject.work(call)


async def _stopped(subject: Subject) -> None:
    await subject.client.stop()


async def _usable(subject: Subject) -> str | BaseException:
    try:
        async with asyncio.timeout(HANGS_S):
            return await subject.use()
    except Exception as error:  # noqa: BLE001 (a finding)
        return error


async def _with_client(
    bootstrap: str, name: str, findings: Findings, torture: Callable[[Subject, list[str]], Coroutine[Any, Any, None]]
) -> None:
    """Start one, torture it, stop it; whatever is left of it is a finding."""
    subject: Subject = SUBJECTS[name]()
    async with nothing_left(name, findings) as what, asyncio.timeout(10 * HANGS_S):
        await subject.start(bootstrap)
        try:
            await torture(subject, what)
        finally:
            async with asyncio.timeout(HANGS_S):
                await subject.stop()


@asynccontextmanager
async def nothing_left(name: str, findings: Findings) -> AsyncIterator[list[str]]:
    """Any error, what clients log as their own mistake or the loop tells (an exception that was never retrieved), tasks and
    sockets that are left: findings under the given text."""
    what, loop = [name], asyncio.get_running_loop()
    told_of_loop, former = list[str](), loop.get_exception_handler()
    loop.set_exception_handler(lambda _, told: told_of_loop.append(f"{told['message']} ({told.get('exception')!r})"))
    told_errors, logger = _Told(), logging.getLogger("oncelog.client")
    before, open_before = asyncio.all_tasks(), _open_sockets()
    logger.addHandler(told_errors)
    try:
        yield what
    except Exception as error:  # noqa: BLE001 (a finding)
        findings.add(what[0], error)
    finally:
        logger.removeHandler(told_errors)
    for _ in range(5):  # closed transports let go of their sockets
        await asyncio.sleep(0)
    gc.collect()  # what nobody retrieved is told where it is collected
    loop.set_exception_handler(former)
    for line in told_of_loop:
        findings.add(what[0], f"the loop tells: {line}")
    for line in told_errors.lines:
        findings.add(what[0], f"logged: {line}")
    for task in asyncio.all_tasks() - before:
        findings.add(what[0], f"left running: {task.get_name()}")
    if (left := _open_sockets() - open_before) > 0:
        findings.add(what[0], f"left open: {left} sockets")


def _open_sockets() -> int:
    """File descriptors that this loop looks at."""
    selector = getattr(asyncio.get_running_loop(), "_selector", None)
    return 0 if selector is None else len(selector.get_map())
