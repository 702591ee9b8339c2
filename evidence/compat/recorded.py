"""Apache Kafka's side of conversations about logins and tokens: kept here, asked anew by `make conformance`.

`recorded_answers.json` holds them, an answer a line. ONCELOG_CONFORMANCE=1 starts the real one and compares what it says with the
record; ONCELOG_RECORD=1 beside it writes the record.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

FILE = pathlib.Path(__file__).with_name("recorded_answers.json")
IS_CONFORMANCE = bool(os.environ.get("ONCELOG_CONFORMANCE"))
IS_RECORDING = bool(os.environ.get("ONCELOG_RECORD"))
# Where a real Apache Kafka or its tools must be started, which takes long.
needs_apache_kafka = pytest.mark.skipif(
    not IS_CONFORMANCE, reason="Apache Kafka itself is started by `make conformance`"
)


def shown(answers: Sequence[Any]) -> list[str]:
    """A conversation as it is recorded."""
    return [repr(each) for each in answers]


def answers_of_apache_kafka(key: str, ask: Callable[[], Sequence[Any]]) -> list[str]:
    """What it said in the conversation `key`; `ask` has it again where the real one may be started. Raises AssertionError
    where it says something else by now."""
    held: dict[str, list[str]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    if IS_CONFORMANCE:
        said = shown(ask())
        if IS_RECORDING:
            held[key] = said
            FILE.write_text(json.dumps(held, indent=1, sort_keys=True) + "\n")
        assert said == held.get(key), f"Apache Kafka does not answer {key!r} as recorded"
    assert key in held, f"{key!r} is not recorded: ONCELOG_CONFORMANCE=1 ONCELOG_RECORD=1"
    return held[key]
