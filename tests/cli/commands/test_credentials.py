"""`oncelog credentials` against a broker."""

from __future__ import annotations

import pytest

from oncelog.cli.dump_log.records import record_row
from oncelog.testing import TestBroker
from oncelog.wire.log_records.cluster_metadata import ScramCredentialRecord, record_to_value
from oncelog.wire.record_batch import RecordBatch, build_batch
from tests.cli.world import Cli


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_set_list_remove(cli: Cli, mechanism: str) -> None:
    cli("credentials", "set", "carol", "--mechanism", mechanism, "--iterations", 4096, "-y", stdin="secret\n")
    assert cli.json("credentials", "list", "carol") == [{"user": "carol", "mechanism": mechanism, "iterations": 4096}]
    cli("credentials", "remove", "carol", "--mechanism", mechanism, "-y")
    assert cli.json("credentials", "list", "carol", status=1)["error"] == "RESOURCE_NOT_FOUND"
    assert cli.json("credentials", "remove", "carol", "-y", status=1)["error"] == "RESOURCE_NOT_FOUND"
    cli("credentials", "set", "carol", "-y", stdin="", status=2)


def test_without_a_mechanism_no_old_password_lives_on(cli: Cli) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        cli("credentials", "set", "dora", "--mechanism", mechanism, "--iterations", 4096, "-y", stdin="secret\n")
    cli("credentials", "set", "dora", "--iterations", 5000, "-y", stdin="other\n")
    assert [each["iterations"] for each in cli.json("credentials", "list", "dora")] == [5000, 5000]
    cli("credentials", "remove", "dora", "-y")
    assert cli.json("credentials", "list", "dora", status=1)["error"] == "RESOURCE_NOT_FOUND"


@pytest.mark.parametrize(
    ("enabled", "made"),
    [
        ("SCRAM-SHA-512", ["SCRAM-SHA-512"]),
        ("PLAIN,SCRAM-SHA-256", ["SCRAM-SHA-256"]),
        ("PLAIN", ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
        ("", ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    ],
)
def test_a_new_user_gets_what_listeners_take(enabled: str, made: list[str]) -> None:
    """With SCRAM-SHA-256 alone nobody new could log in to a broker of `oncelog secure`."""
    with TestBroker({"sasl.enabled.mechanisms": enabled} if enabled else {}) as broker:
        cli = Cli(broker.bootstrap_servers)
        said = cli.json("credentials", "set", "emil", "--iterations", 4096, "-y", stdin="secret\n")
        assert [(each["mechanism"], each["result"]) for each in said] == [(each, "set") for each in made]
        assert [each["mechanism"] for each in cli.json("credentials", "list", "emil")] == made


def test_a_dump_of_the_metadata_hides_them() -> None:
    kept = ScramCredentialRecord(
        user="a", mechanism=1, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
    )
    batch = RecordBatch(build_batch([(0, None, record_to_value(kept), ())]))
    (record,) = batch.records()
    content = record_row(batch, record, "__cluster_metadata")["content"]
    assert (content["user"], content["iterations"]) == ("a", 4096)
    assert {content["salt"], content["stored_key"], content["server_key"]} == {"(hidden)"}


def test_what_is_not_there_is_not_removed_in_a_dry_run_either(cli: Cli) -> None:
    remove = ("credentials", "remove", "half", "--mechanism", "SCRAM-SHA-512")
    cli("credentials", "set", "half", "--mechanism", "SCRAM-SHA-256", "--yes", stdin="secret\n")
    for how in ("--yes", "--dry-run"):
        assert cli.json(*remove, how, status=1)["error"] == "RESOURCE_NOT_FOUND"
    cli("credentials", "remove", "half", "--yes")
