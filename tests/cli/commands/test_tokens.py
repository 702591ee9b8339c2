"""`oncelog tokens` against a broker, as users who have passwords."""

from __future__ import annotations

import base64
import pathlib
from collections.abc import Callable, Iterator

import pytest

from oncelog.testing import TestBroker
from tests.cli.world import Cli, cli_as, oncelog


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    users = {"alice": "a", "bob": "b", "carl": "c"}
    config = {"delegation.token.secret.key": "secret", "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    with TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users=users) as found:
        yield found


@pytest.fixture
def as_user(broker: TestBroker, tmp_path: pathlib.Path) -> Callable[[str], Cli]:
    return lambda user: cli_as(broker, user, tmp_path)


def test_create_list_renew_expire(as_user: Callable[[str], Cli], broker: TestBroker, tmp_path: pathlib.Path) -> None:
    alice, bob = as_user("alice"), as_user("bob")
    (made,) = alice.json("tokens", "create", "--renewer", "bob", "--max-lifetime", "2h")
    assert (made["owner"], made["requester"], made["renewers"]) == ("User:alice", "User:alice", ["User:bob"])
    assert made["max_timestamp_ms"] - made["issue_timestamp_ms"] == 7_200_000
    assert len(base64.b64decode(made["password"])) == 64
    listed = {key: value for key, value in made.items() if key != "password"}
    assert alice.json("tokens", "list", "alice") == [listed]
    assert "password" not in alice("tokens", "list").stdout.lower()
    (renewed,) = bob.json("tokens", "renew", made["token"], "--period", "1h")
    assert renewed["result"] == "renewed"
    assert renewed["expiry_timestamp_ms"] < made["max_timestamp_ms"]
    path = tmp_path / "token.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{made["token"]}" password="{made["password"]}" tokenauth="true";\n'
    )
    path.chmod(0o600)
    by_token = ("-b", broker.bootstrap_servers, "--command-config", path)
    assert oncelog(*by_token, "topics", "create", "by-token").exit_code == 0
    for change in ("renew", "expire"):
        refused = oncelog(*by_token, "tokens", change, made["token"], "-y")
        error, _, hint = refused.stderr.strip().partition(" (")
        assert error == f"error: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: {change} the delegation token {made['token']}"
        assert hint.startswith("tokens are for who has logged in with a password or a certificate, not with a token")
    refused = oncelog(*by_token, "tokens", "list")
    assert refused.exit_code == 1
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.stderr
    assert alice.json("tokens", "expire", made["token"], "--dry-run")[0]["result"] == "would be ended"
    assert alice.json("tokens", "expire", made["token"], "-y")[0]["result"] == "ended"
    assert alice.json("tokens", "list", "alice") == []
    assert oncelog(*by_token, "topics", "list").exit_code == 1


def test_what_is_refused(as_user: Callable[[str], Cli]) -> None:
    carl = as_user("carl")
    assert "there is no token nothing" in carl("tokens", "renew", "nothing", status=1).stderr
    assert carl.json("tokens", "create", "--dry-run")[0]["result"] == "would be created"
    carl("tokens", "create", "--max-lifetime", "soon", status=2)
    assert carl.json("tokens", "list", "carl") == []


def test_a_dry_run_says_that_no_token_can_be_made(cli: Cli) -> None:
    for how in ("--yes", "--dry-run"):
        error = cli.json("tokens", "create", how, status=1)
        assert error["error"] == "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
        assert "create a delegation token" in error["message"]
