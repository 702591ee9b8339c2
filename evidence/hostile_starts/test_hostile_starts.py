"""The short form: some drawn starts, those that once ended in a traceback, and broken standard files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evidence.hostile_starts.drawing import ENDLESS, Start, all_commands, starts
from evidence.hostile_starts.running import run_inside, run_outside
from oncelog.cli import clients
from oncelog.testing import TestBroker

FOUND = [
    ("quotas", "list", "-X", "client.id=\udcff"),
    ("topics", "list", "-X", "client.id=" + "x" * 40_000),
    ("topics", "delete", "\ud800", "-y"),
    ("topics", "delete", "x" * 40_000, "-y"),
    ("topics", "create", "many", "-p", "18446744073709551616"),
    ("topics", "add-partitions", "none", "--total", "2147483648", "-y"),
    ("credentials", "set", "\ud800", "-y"),
    ("topics", "list", "-b", "127.0.0.1:²"),
    ("topics", "list", "-b", "x" * 300 + ":1"),
    ("topics", "list", "-b", "\udcff:1"),
    ("topics", "list", "--command-config", "/dev/full"),
    ("consume", "t:²", "-e"),
    ("consume", "t", "--from", "9" * 5000, "-e"),
    ("features", "upgrade", "transaction.version=²", "-y"),
    ("configs", "describe", "--broker", "\x1b[2J"),
    ("check-history", "\x1b[2J\x1b]0;owned\x07"),
]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with TestBroker() as broker:
        yield broker.bootstrap_servers


def test_every_command_is_drawn(tmp_path: Path) -> None:
    drawn = {start.arguments[0] for start in starts(1, 200, "127.0.0.1:1", tmp_path)}
    assert drawn == {path[0] for path, _ in all_commands()} - {path[0] for path in ENDLESS}


def test_drawn_starts_end_as_documented(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # `secure` makes what it is told to
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 300)  # behind a drawn "--" the usual address is asked
    quick = [
        start
        for start in starts(1, 100, servers, tmp_path)
        if start.arguments[0] not in ("doctor", "recover", "transactions")
    ]
    assert [str(found) for start in quick if (found := run_inside(start)) is not None] == []


@pytest.mark.parametrize("words", FOUND, ids=lambda words: ascii(" ".join(words))[:60])
def test_what_was_found_stays_mended(servers: str, words: tuple[str, ...]) -> None:
    where = () if "-b" in words else ("-b", servers)
    assert run_inside(Start((*words, *where, "--timeout", "400ms", "-o", "json"), b"secret\n")) is None


@pytest.mark.parametrize("way", ["/dev/full", "no stderr"])
def test_broken_standard_files(servers: str, way: str) -> None:
    assert run_outside(Start(("topics", "list", "-b", servers, "-o", "json"), b""), way) is None
