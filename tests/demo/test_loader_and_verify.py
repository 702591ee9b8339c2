"""The demo's two ends without Spark: what is loaded, over a kill and aborts, and a verdict that can say no."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import pytest

from oncelog import sync
from oncelog.demo.flights import as_records, read_flights, true_totals
from oncelog.demo.loader import next_row, write_aborted
from oncelog.demo.verify import values_of, verify
from oncelog.testing import TestBroker

ROWS, TRANSACTION_ROWS = 330, 30


def load(bootstrap: str, *arguments: str) -> tuple[int, list[dict]]:
    command = [sys.executable, "-m", "oncelog.demo.loader", "--bootstrap-server", bootstrap, "--rows", str(ROWS)]
    command += ["--transaction-rows", str(TRANSACTION_ROWS), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def loaded():
    with TestBroker() as broker:
        bootstrap = broker.bootstrap_servers
        with sync.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics({"flights": 2, "flights.enriched": 2})
        yield bootstrap, load(bootstrap, "--die-at", "3"), load(bootstrap)


def test_a_killed_loader_goes_on_where_its_last_transaction_ended(loaded):
    bootstrap, (killed, events), (status, again) = loaded
    assert killed == -9
    assert [each["outcome"] for each in events[1:]] == ["committed"] * 3 + ["killed"]
    assert status == 0
    assert again[0]["row"] == 3 * TRANSACTION_ROWS
    assert again[-1]["row"] == ROWS == next_row(bootstrap)
    ids = sorted(json.loads(value)["id"] for value in values_of(bootstrap, "flights", "read_committed"))
    assert ids == list(range(ROWS))


def test_every_ninth_transaction_is_tried_and_aborted_first(loaded):
    bootstrap, _, (_, events) = loaded
    outcomes = [each["outcome"] for each in events[1:-1]]
    assert outcomes == ["committed"] * 5 + ["aborted"] + ["committed"] * 3
    raw = [json.loads(value) for value in values_of(bootstrap, "flights", "read_uncommitted")]
    notes = [each["note"] for each in raw if "note" in each]
    assert sorted(set(notes)) == ["aborted on purpose", "killed in mid-transaction"]
    assert notes.count("aborted on purpose") == TRANSACTION_ROWS
    assert len(raw) == ROWS + len(notes)


def test_what_is_aborted_on_purpose_is_in_the_log_before(capsys):
    """An abort drops what was not sent: readers would have nothing to pass over."""

    class Buffer:
        """A producer that sends nothing before it must."""

        buffered, sent, aborted = (), (), None

        def begin_transaction(self):
            assert self.aborted is None

        def send_arrow(self, topic, rows):
            self.buffered = [json.loads(value.as_py()) for value in rows["value"]]

        def flush(self):
            self.sent, self.buffered = self.buffered, ()

        def abort_transaction(self):
            self.aborted, self.buffered = self.sent, ()

    producer = Buffer()
    write_aborted(producer, read_flights(5))
    assert [each["note"] for each in producer.aborted] == ["aborted on purpose"] * 5
    event = json.loads(capsys.readouterr().out)
    assert (event["outcome"], event["rows"]) == ("aborted", 5)


def test_the_verdict_is_exact_only_when_log_database_and_source_agree(loaded, tmp_path):
    bootstrap, *_ = loaded
    flights = read_flights(ROWS)
    database = tmp_path / "totals.db"
    connection = sqlite3.connect(database)
    connection.execute(
        "CREATE TABLE delay_totals (carrier, origin, dest, flights, delayed_flights, delay_minutes, delay_max)"
    )
    rows = [
        (*key, t.flights, t.delayed_flights, t.delay_minutes, t.delay_max) for key, t in true_totals(flights).items()
    ]
    connection.executemany("INSERT INTO delay_totals VALUES (?, ?, ?, ?, ?, ?, ?)", rows[1:])
    connection.commit()
    with sync.Producer(bootstrap_servers=bootstrap, transactional_id="enrich") as producer:
        producer.begin_transaction()
        producer.send_arrow("flights.enriched", as_records(flights.slice(0, ROWS - 1)))
        producer.commit_transaction()
        failed = {
            check.name: (check.expected, check.found)
            for check in verify(bootstrap, database, flights).checks
            if not check.holds
        }
        first_route = true_totals(flights)[rows[0][:3]].flights
        assert failed == {
            "enriched flights": (ROWS, ROWS - 1),
            "losses": (0, 1),
            "flights counted in the database": (ROWS, ROWS - first_route),
            "totals that differ from the source": (0, 1),
        }
        connection.execute("INSERT INTO delay_totals VALUES (?, ?, ?, ?, ?, ?, ?)", rows[0])
        connection.commit()
        connection.close()
        producer.begin_transaction()
        producer.send_arrow("flights.enriched", as_records(flights.slice(ROWS - 1, 1)))
        producer.commit_transaction()
        verdict = verify(bootstrap, database, flights)
        assert verdict.is_exact, verdict.checks
        assert (verdict.output_records, verdict.duplicates, verdict.losses) == (ROWS, 0, 0)
        producer.begin_transaction()
        twice = flights.slice(0, 1).set_column(6, "dep_delay", [[12345]])
        producer.send_arrow("flights.enriched", as_records(twice))
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send_arrow("flights.enriched", as_records(flights.slice(0, 1), note="seen"))
        producer.flush()
        failed = {check.name: check.found for check in verify(bootstrap, database, flights).checks if not check.holds}
        assert failed == {
            "enriched flights": ROWS + 1,
            "duplicates": 1,
            "records that differ from the source": 1,
            "open transactions": 1,
        }
        producer.abort_transaction()
