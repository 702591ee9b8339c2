"""`oncelog credentials` against a broker."""

from __future__ import annotations

import pytest

from tests.cli.world import Cli


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_set_list_remove(cli: Cli, mechanism: str) -> None:
    cli("credentials", "set", "carol", "--mechanism", mechanism, "--iterations", 4096, stdin="secret\n")
    assert cli.json("credentials", "list", "carol") == [{"user": "carol", "mechanism": mechanism, "iterations": 4096}]
    cli("credentials", "remove", "carol", "--mechanism", mechanism)
    assert cli.json("credentials", "list", "carol", status=1)["error"] == "RESOURCE_NOT_FOUND"
    assert cli.json("credentials", "remove", "carol", status=1)["error"] == "RESOURCE_NOT_FOUND"
    cli("credentials", "set", "carol", stdin="", status=2)
