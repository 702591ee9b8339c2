"""The independent check: log, database and source data, compared number by number. It trusts nothing the job said."""

from __future__ import annotations

import json
import pathlib
import sqlite3
from collections import Counter

import pyarrow as pa

from oncelog import TopicPartition, sync
from oncelog.demo.flights import Totals, true_totals
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Check:
    """One line of the verdict: what was expected and what was found."""

    name: str
    expected: int
    found: int

    @property
    def holds(self) -> bool:
        return self.expected == self.found


@dataclass(frozen=True)
class Verdict:
    """All checks; `raw_output_records` counts what lies in the output topic with aborted attempts."""

    checks: list[Check]
    output_records: int
    duplicates: int
    losses: int
    raw_output_records: int
    raw_input_records: int

    @property
    def is_exact(self) -> bool:
        return all(check.holds for check in self.checks)


def values_of(bootstrap: str, topic: str, isolation_level: str) -> list[bytes]:
    """Every record value of a topic up to its end, by partition."""
    values: list[bytes] = []
    with sync.Consumer(bootstrap_servers=bootstrap, isolation_level=isolation_level) as consumer:
        partitions = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic))]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while any(consumer.position(p) < ends[p] for p in partitions):
            batch = consumer.poll_arrow(max_records=100_000, timeout_ms=2000)
            values += batch.column("value").to_pylist()
    return values


def verify(bootstrap: str, database: pathlib.Path, flights: pa.Table) -> Verdict:
    """Compare. Reads both topics twice, the database once, and the open transactions of the broker."""
    source_ids = set(flights["id"].to_pylist())
    loaded = [json.loads(value) for value in values_of(bootstrap, "flights", "read_committed")]
    output = [json.loads(value) for value in values_of(bootstrap, "flights.enriched", "read_committed")]
    times = Counter(record["id"] for record in output)
    duplicates, losses = sum(n - 1 for n in times.values()), len(source_ids - set(times))
    aborted_seen = sum(1 for record in [*loaded, *output] if record.get("note"))
    wrong = _wrong_records(flights, output)
    wrong_totals, flights_counted = _compare_totals(flights, database)
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        open_transactions = [t for t in admin.list_transactions() if not t.state.startswith(("Complete", "Empty"))]
    checks = [
        Check("flights loaded", len(source_ids), len(loaded)),
        Check("enriched flights", len(source_ids), len(output)),
        Check("duplicates", 0, duplicates),
        Check("losses", 0, losses),
        Check("aborted records seen", 0, aborted_seen),
        Check("records that differ from the source", 0, wrong),
        Check("flights counted in the database", len(source_ids), flights_counted),
        Check("totals that differ from the source", 0, wrong_totals),
        Check("open transactions", 0, len(open_transactions)),
    ]
    raw_output = len(values_of(bootstrap, "flights.enriched", "read_uncommitted"))
    raw_input = len(values_of(bootstrap, "flights", "read_uncommitted"))
    return Verdict(checks, len(output), duplicates, losses, raw_output, raw_input)


def _wrong_records(flights: pa.Table, output: list[dict[str, object]]) -> int:
    truth = {row["id"]: row for row in flights.to_pylist()}
    names = [name for name in flights.schema.names if name != "id"]
    return sum(
        1
        for record in output
        if record["id"] in truth and any(truth[record["id"]][name] != record.get(name) for name in names)
    )


def _compare_totals(flights: pa.Table, database: pathlib.Path) -> tuple[int, int]:
    connection = sqlite3.connect(database)
    try:
        rows = connection.execute(
            "SELECT carrier, origin, dest, flights, delayed_flights, delay_minutes, delay_max FROM delay_totals"
        ).fetchall()
    finally:
        connection.close()
    found = {(c, o, d): Totals(*rest) for c, o, d, *rest in rows}
    truth = true_totals(flights)
    wrong = sum(1 for key in truth.keys() | found.keys() if truth.get(key) != found.get(key))
    return wrong, sum(totals.flights for totals in found.values())
