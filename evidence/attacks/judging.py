"""After an attack: what its maker got, what the log says of it, and whether others are served."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import unicodedata

from evidence.attacks.attack import Attack
from evidence.attacks.peer import Peer
from evidence.attacks.target import SECRET_KEY, Target
from evidence.world.security import SCRAM_PASSWORD, USERS

SECRETS = {SECRET_KEY, SCRAM_PASSWORD, *USERS.values()}
_STEERING = {"Cc", "Cf", "Zl", "Zp", "Cs"}


class Lines(logging.Handler):
    """What the broker's loggers said since the last look."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it as a file would get it."""
        self.lines.append((record.name, record.getMessage()))


def faults_in(lines: list[tuple[str, str]], attack: Attack, target: Target) -> list[str]:
    """What is wrong with the log of an attack."""
    found = []
    for name, line in lines:
        if any(unicodedata.category(each) in _STEERING for each in line):
            found.append(f"a line with control characters: {line!r}")
        found += [f"a secret in the log: {line[:200]!r}" for secret in SECRETS | target.secrets if secret in line]
        if name == "oncelog.audit":
            told = json.loads(line)
            if not isinstance(told.get("event"), str) or any(len(str(each)) > 300 for each in told.values()):
                found.append(f"a line without an event, or too long: {line[:200]!r}")
    if not is_said(attack, target, lines):
        about = [line for _, line in lines if target.source in line]
        found.append(f"no line about {target.source} matches {attack.says!r}: {about[:4] or lines[:4]}")
    return found


async def said_in_time(attack: Attack, target: Target, log: Lines) -> None:
    """A broker may say it a moment after the connection has gone."""
    until_s = time.monotonic() + 2
    while time.monotonic() < until_s and not is_said(attack, target, log.lines):  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0.01)


def is_said(attack: Attack, target: Target, lines: list[tuple[str, str]]) -> bool:
    """Whether a line about the attacker's address says why."""
    about = [line for _, line in lines if target.source in line]
    return not attack.says or any(re.search(attack.says, line) for line in about)


async def judged(attack: Attack, target: Target, log: Lines, bystander: Peer) -> list[str]:
    """Everything that is not as it should be; empty where all is well."""
    log.lines.clear()
    target.begin()
    try:
        end = await attack.do(target)
    except Exception as error:  # noqa: BLE001 - of the attack itself: it is told with the others
        end = f"{type(error).__name__}: {error}"
    finally:
        await target.end()
    await said_in_time(attack, target, log)
    found = [] if end == attack.ends else [f"it ends in {end!r}, and should in {attack.ends!r}"]
    found += faults_in(log.lines, attack, target)
    if not await bystander.is_served():
        found.append("a bystander is not served any more")
    return found
