"""The texts for clients are Python where they say so, name files that are there, and hold no secret."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from oncelog.cli.secure.clients import snippets
from oncelog.cli.secure.home import CERTIFICATE_LISTENER, PASSWORD_LISTENER, Server
from oncelog.core.access.listeners import NamedAddress


def server(*, certificates: bool, host: str = "kafka.example.com") -> Server:
    names = [PASSWORD_LISTENER, *([CERTIFICATE_LISTENER] if certificates else [])]
    addresses = [NamedAddress(name, host, 9093 + at) for at, name in enumerate(names)]
    return Server(node_id="1", data_directory="/d", listeners=addresses, advertised=addresses, administrator="admin")


def test_every_kind_of_client_has_one() -> None:
    found = {each.client: each for each in snippets(server(certificates=False), "alice", Path("/h/clients/alice"))}
    assert list(found) == [
        "oncelog's tools",
        "Apache Kafka's tools",
        "oncelog in Python",
        "confluent-kafka",
        "Java",
        "Spark",
    ]
    for each in found.values():
        assert all(name in each.text and name.startswith("/h/clients/alice/") for name in each.files)
    for name in ("oncelog in Python", "confluent-kafka", "Spark"):
        ast.parse(found[name].text)
        assert "kafka.example.com:9093" in found[name].text


@pytest.mark.parametrize(("host", "shown"), [("::1", "[::1]:9094"), ("k", "k:9094")])
def test_with_a_certificate(host: str, shown: str) -> None:
    last = snippets(server(certificates=True, host=host), "alice", Path("/h"))[-1]
    assert last.client == "with a certificate"
    assert shown in last.text
