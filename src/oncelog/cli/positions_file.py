"""Positions in a file: `TOPIC,PARTITION,OFFSET` lines as Kafka's kafka-consumer-groups exports them, or rows as JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from oncelog.cli.numbers import is_number
from oncelog.cli.output import Failed
from oncelog.types import TopicPartition

FILE_BYTES_MAX = 64 << 20
HINT = "write TOPIC,PARTITION,OFFSET lines, or keep what `oncelog groups describe GROUP -o json` prints"


def positions_of(path: str) -> dict[TopicPartition, int]:
    """What a file says; rows of JSON have `topic`, `partition` and `position` (or `to`, `offset`). Raises Failed."""
    try:
        file = Path(path)
        if file.stat().st_size > FILE_BYTES_MAX:
            raise Failed(f"{path}: it has more than {FILE_BYTES_MAX} bytes")
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Failed(f"{path}: {getattr(error, 'strerror', None) or 'it is no text'}") from error
    found: dict[TopicPartition, int] = {}
    for number, (topic, partition, offset) in enumerate(_triples(path, text), 1):
        if not isinstance(topic, str) or not topic or not _is_count(partition, 2**31) or not _is_count(offset, 2**63):
            raise Failed(f"{path}: entry {number} is no topic, partition and offset", HINT)
        where = TopicPartition(topic, int(partition))
        if found.setdefault(where, int(offset)) != int(offset):
            raise Failed(f"{path}: entry {number}: {where} is there twice", "leave one of them")
    return found


def _is_count(value: Any, end: int) -> bool:
    """A number as Python's json gives it, or in a line of text."""
    if isinstance(value, str):
        return is_number(value) and len(value) < 20 and int(value) < end
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end


def _triples(path: str, text: str) -> list[tuple[Any, Any, Any]]:
    first = text.lstrip()[:1]
    if first not in ("[", "{"):
        try:
            rows = [row for row in csv.reader(text.splitlines()) if row]
        except csv.Error as error:
            raise Failed(f"{path}: {error}", HINT) from error
        # Several groups' export has the group in front.
        return [
            (row[-3], row[-2].strip(), row[-1].strip()) if len(row) in (3, 4) else (None, None, None) for row in rows
        ]
    try:
        found = json.loads(text) if first == "[" else [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise Failed(f"{path}: it is no JSON: {error}", HINT) from error
    if not all(isinstance(row, dict) for row in found):
        raise Failed(f"{path}: it is no list of rows", HINT)
    return [(row.get("topic"), row.get("partition"), _offset(row)) for row in found if _offset(row) is not None]


def _offset(row: dict[str, Any]) -> Any:
    return next((row[key] for key in ("to", "position", "offset") if row.get(key) is not None), None)
