"""`oncelog support-bundle`: everything that helps, and no secret that was planted."""

from __future__ import annotations

import json
import pathlib
import socket
import zipfile
from typing import Any

from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.testing import TestBroker
from tests.cli.world import Cli, cli_as, oncelog

SECRET = "Pl4nted"


def contents(path: pathlib.Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    return {name: json.loads(text) if name.endswith(".json") else text for name, text in texts.items()}


def test_what_was_planted_is_not_in_it(tmp_path: pathlib.Path) -> None:
    config = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:root",
        "metrics.listen": f"127.0.0.1:{(port := _free_port())}",
    }
    users = {"root": f"{SECRET}-root", "eve": f"{SECRET}-eve"}
    with TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users=users) as broker:
        root = cli_as(broker, "root", tmp_path)
        root.create("orders", 2)
        root("produce", "orders", stdin=f"{SECRET}-record\n")
        root("groups", "reset-offsets", "billing", "--topic", "orders", "--to-earliest", "-y")
        root("configs", "set", "--topic", "orders", "retention.ms=5000000", "-y")
        file = tmp_path / "bundle.zip"
        with (tmp_path / "root.properties").open("a") as properties:
            properties.write(f"ssl.key.password={SECRET}-key\n")
        more = ("-X", f"sasl.oauthbearer.scope={SECRET}-scope")
        done = root("support-bundle", file, "--metrics", f"http://127.0.0.1:{port}/metrics", *more)
        found = contents(file)
        assert SECRET not in json.dumps(found) + done.stdout + done.stderr
        assert file.stat().st_mode & 0o077 == 0
        assert found["about.json"]["client"]["sasl.mechanism"] == "PLAIN"
        assert found["about.json"]["client"]["sasl.jaas.config"] == "(hidden)"
        (topic,) = [each for each in found["topics.json"]["topics"] if each["topic"] == "orders"]
        assert topic["settings"]["retention.ms"] == "5000000"
        assert [each["high_watermark"] for each in topic["partitions"]].count(1) == 1
        (group,) = [each for each in found["groups.json"]["groups"] if each["group"] == "billing"]
        assert [each["position"] for each in group["positions"]] == [0, 0]
        assert found["held-back.json"]["verdict"] == "active"
        assert "oncelog_open_transactions" in found["metrics.txt"]
        assert found["cluster.json"]["features"]["transaction.version"] >= 2
        brokers = json.dumps(found["settings.json"])
        assert "super.users" in brokers
        eve = tmp_path / "eve.zip"
        said = cli_as(broker, "eve", tmp_path)("support-bundle", eve, status=1)
        assert (
            "error: settings.json was not read: CLUSTER_AUTHORIZATION_FAILED: describe the configuration of"
            in said.stderr
        )
        assert "--operation describe-configs" in said.stderr
        seen = contents(eve)
        for name, kind in (("topics", "topics"), ("groups", "groups"), ("transactions", "transactional ids")):
            assert seen[f"{name}.json"]["not_all"] == [f"you may not see all {kind}"]
            assert f"{name}.json: you may not see all {kind}: there may be more than is in it" in said.stderr
            assert found[f"{name}.json"]["not_all"] == []
        results = dict(line.rsplit(maxsplit=1) for line in said.stdout.splitlines() if line.endswith(" read"))
        assert "topics.json" not in results
        assert seen["settings.json"]["error"] == "CLUSTER_AUTHORIZATION_FAILED"
        assert seen["topics.json"]["topics"] == []


def test_a_file_that_is_there_is_not_replaced(cli: Cli, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "there.zip"
    file.write_text("mine")
    assert "File exists" in cli("support-bundle", file, status=1).stderr
    assert file.read_text() == "mine"
    cli("support-bundle", tmp_path / "no" / "folder.zip", status=1)
    cli("support-bundle", "-", status=2)
    cli("support-bundle", tmp_path / "x.zip", "--metrics", "http://example.com/metrics", status=2)


def test_numbers_that_nobody_gives_are_not_read(cli: Cli, tmp_path: pathlib.Path) -> None:
    file, url = tmp_path / "half.zip", f"http://127.0.0.1:{_free_port()}/metrics"
    done = cli("support-bundle", file, "--metrics", url, "-o", "json", status=1)
    results = {row["file"]: row["result"] for row in json.loads(done.stdout)}
    assert [name for name, each in results.items() if each == "not read"] == ["metrics.txt"]
    assert f"error: metrics.txt was not read: {url}: " in done.stderr
    assert contents(file)["metrics.txt"].startswith("not read: ")
    refused = cli("support-bundle", tmp_path / "x.zip", "--metrics", "file:///etc/passwd", status=2)
    assert "expected https://HOST/PATH, or http://HOST/PATH on this machine" in refused.stderr


def test_without_a_broker_it_has_what_needs_none(tmp_path: pathlib.Path) -> None:
    """Nothing was written: then, of all times, somebody asks for it."""
    file = tmp_path / "alone.zip"
    silent = ("-b", f"127.0.0.1:{_free_port()}", "--timeout", "300ms")
    done = oncelog(*silent, "support-bundle", file, "-o", "json")
    assert done.exit_code == 1
    assert "error: REQUEST_TIMED_OUT" in done.stderr
    assert "only what needs no broker is in it" in done.stderr
    found = contents(file)
    assert found["about.json"]["python"]
    assert "codecs" in [each["check"] for each in found["doctor.json"]]
    asked = {"cluster.json", "settings.json", "topics.json", "transactions.json", "groups.json", "held-back.json"}
    assert {name: found[name]["error"] for name in asked} == dict.fromkeys(asked, "REQUEST_TIMED_OUT")
    results = {row["file"]: row["result"] for row in json.loads(done.stdout)}
    assert results == dict.fromkeys(asked, "not read") | {"about.json": "read", "doctor.json": "read"}


def test_a_file_that_cannot_be_written_is_told_before_anybody_is_asked(tmp_path: pathlib.Path) -> None:
    silent = ("-b", f"127.0.0.1:{_free_port()}", "--timeout", "300ms")
    done = oncelog(*silent, "support-bundle", tmp_path / "no" / "folder.zip")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {tmp_path}/no/folder.zip: No such file or directory")
    file = tmp_path / "wrong.zip"
    assert oncelog("-b", "nonsense", "support-bundle", file).exit_code == 2
    assert not file.exists(), "what fails leaves nothing"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
