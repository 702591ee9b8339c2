"""What a Python client does for one step, in terms of an adapter (`with_<client>.py`); the others do the same in their languages.

A program reads settings (`ways.settings`) as JSON on stdin and prints one JSON line:
{"result": passed | told | refused | failed | absent, "detail", "committed", "errors"}. WRONG's are: `passed`, the call raises the
client's own error of authentication; `told`, it raises another or waits, while the log or a callback names the refusal;
`refused`, nothing names it.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Protocol

WAIT_S = 30.0
REFUSED_WITHIN_S = 20.0
PAUSE_S = 0.05
POLL_S = 0.2


class Absent(Exception):
    """The client has no such thing; the reason goes on the page."""


class Hangs(Exception):
    """Nothing was said in time."""


class Adapter(Protocol):
    """One client by one way. Errors of a producer or a reader are raised, where the client has another way for them, too."""

    AUTHENTICATION: tuple[type[BaseException], ...]

    def open(self) -> None:
        """A transactional producer that is ready (InitProducerId)."""

    def begin(self) -> None: ...
    def send(self, value: bytes) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def read(self, seconds: float) -> list[bytes]:
        """What a member of the group got since the last call, read_committed."""

    def complaints(self) -> list[str]:
        """Errors that the client told, but did not raise."""

    def refusal(self) -> str:
        """What its log or a callback said of a failed authentication; empty where nothing."""

    def close(self) -> None: ...


def transaction(client: Adapter) -> dict[str, Any]:
    client.open()
    client.begin()
    client.send(b"aborted")
    client.abort()
    client.begin()
    client.send(b"committed")
    client.commit()
    found = _read(client, [b"committed"])
    assert found == [b"committed"], found
    return {"result": "passed"}


def wrong(client: Adapter) -> dict[str, Any]:
    """The first call has to say so."""
    began = time.monotonic()
    try:
        client.open()
    except Absent:
        raise
    except Hangs:
        raised = f"nothing is raised in {REFUSED_WITHIN_S:.0f} s"
    except Exception as error:  # noqa: BLE001 - this is what is looked at
        raised = str(error) if str(error).startswith(type(error).__name__) else f"{type(error).__name__}: {error}"
        if isinstance(error, client.AUTHENTICATION) and time.monotonic() - began < REFUSED_WITHIN_S:
            return {"result": "passed", "detail": raised}
    else:
        return {"result": "failed", "detail": "it came in"}
    beside = client.refusal()
    return (
        {"result": "told", "detail": f"{raised}; beside it: {beside}"}
        if beside
        else {"result": "refused", "detail": raised}
    )


def load(client: Adapter, seconds: float) -> dict[str, Any]:
    """Transactions and a reader beside them; after an error it goes on as its users would: abort, else a new producer."""
    client.open()
    errors: list[str] = []
    committed: list[bytes] = []
    unknown: set[bytes] = set()
    found: list[bytes] = []
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        value = b"%d" % number
        number += 1
        try:
            client.begin()
            client.send(value)
            client.commit()
            committed.append(value)
        except Exception as error:  # noqa: BLE001 - reported
            errors.append(f"{type(error).__name__}: {error}")
            unknown.add(value)
            _recovered(client, errors)
        try:
            found += client.read(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - reported
            errors.append(f"reading: {type(error).__name__}: {error}")
    missing = [value for value in committed if value not in found]
    found += _read(client, missing)
    errors += client.complaints()
    sure = [value for value in found if value not in unknown]
    assert sure == committed, f"committed {len(committed)}, read {len(sure)}, not the same"
    assert len(committed) > seconds / 2, f"only {len(committed)} transactions"
    return {"result": "passed", "committed": len(committed), "errors": list(dict.fromkeys(errors))}


def _recovered(client: Adapter, errors: list[str]) -> None:
    try:
        client.abort()
    except Exception as error:  # noqa: BLE001 - reported
        errors.append(f"aborting: {type(error).__name__}: {error}")
        client.open()


class Log(logging.Handler):
    """What a client logs at WARNING and above, its tracebacks left out."""

    def __init__(self, of: str) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []
        logging.getLogger(of).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self._lines.append(record.getMessage() + (f" ({type(cause).__name__}: {cause})" if cause else ""))

    def naming(self, words: str) -> str:
        """The first line that has one of these words (a regular expression)."""
        return next((line for line in self._lines if re.search(words, line)), "")


def _read(client: Adapter, wanted: list[bytes]) -> list[bytes]:
    """Until all that is wanted has come."""
    found: list[bytes] = []
    until = time.monotonic() + WAIT_S
    while not set(wanted) <= set(found):
        assert time.monotonic() < until, f"{len(wanted)} records did not come, {len(found)} did"
        found += client.read(POLL_S)
    return found


def main(make: Callable[[dict[str, Any]], Adapter]) -> int:
    given = json.load(sys.stdin)
    steps = {"transaction": transaction, "wrong": wrong, "load": lambda client: load(client, given["seconds"])}
    outcome: dict[str, Any]
    client = None
    try:
        client = make(given)
        outcome = steps[given["step"]](client)
    except Absent as absent:
        outcome = {"result": "absent", "detail": str(absent)}
    except Exception as error:  # noqa: BLE001 - reported
        traceback.print_exc()
        outcome = {"result": "failed", "detail": f"{type(error).__name__}: {error}"}
    print(json.dumps({"detail": "", "committed": 0, "errors": []} | outcome), flush=True)
    if client is not None:
        client.close()
    return 0
