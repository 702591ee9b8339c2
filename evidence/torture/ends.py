"""Starts and stops cancelled at every place where they wait, one after the other; then a new client has the same ids.

`run.cancelled` and `run.cancelled_starts` draw a place. Here all are taken, and what counts is the successor: it works at
once, not when a session, a lock or a transaction of the former one has timed out.
"""

from __future__ import annotations

import asyncio
import contextlib

from evidence.torture.run import HANGS_S, Findings, nothing_left
from evidence.torture.strike import Strike
from evidence.torture.subjects import SUBJECTS, Subject

ENDS = ("start", "stop")
TOGETHER_S = 200.0
WAITS_MAX = 60  # no start or stop has so many


async def cancelled_ends(bootstrap: str, name: str, findings: Findings) -> None:
    """One subject: all its clients have the same ids."""
    subject: Subject = SUBJECTS[name]()
    async with nothing_left(name, findings), asyncio.timeout(TOGETHER_S):
        await subject.start(bootstrap)
        await subject.client.stop()
    for end in ENDS:
        for is_late in (False, True):
            for at in range(WAITS_MAX):
                strike = Strike({at}, is_late=is_late)
                await _one(subject, end, strike, f"{name}: {end} {strike}", findings)
                findings.cancellation_count += strike.strike_count
                if not strike.strike_count:
                    break
    async with nothing_left(name, findings), asyncio.timeout(TOGETHER_S):
        await subject.stop()


async def _one(subject: Subject, end: str, strike: Strike, what: str, findings: Findings) -> None:
    async with nothing_left(what, findings), asyncio.timeout(TOGETHER_S):
        client = subject.client = subject.again()
        if end == "start":
            # `async with` calls no stop where it was not entered.
            with contextlib.suppress(asyncio.CancelledError):
                await strike.around(client.start())
                await client.stop()
        else:
            await client.start()
            await _used(subject, what, findings)
            try:
                await strike.around(client.stop())
            except asyncio.CancelledError:
                subject.is_stop_cancelled = True
            await client.stop()  # its goodbye goes on, and is waited for
    what += ", its successor"
    async with nothing_left(what, findings), asyncio.timeout(TOGETHER_S), subject.again() as subject.client:
        await _used(subject, what, findings)


async def _used(subject: Subject, what: str, findings: Findings) -> None:
    try:
        async with asyncio.timeout(HANGS_S):
            if wrong := await subject.use():
                findings.add(what, wrong)
    except TimeoutError:
        findings.add(what, "it does not work at once")
