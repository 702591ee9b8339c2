"""Whose data directory it is, and whether a broker serves it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog.cli.output import Failed
from oncelog.cli.secure.credentials import is_running, node_id_of, refuse_known, without_a_broker
from oncelog.errors import StorageError
from oncelog.testing import TestBroker


def test_whose_it_is(tmp_path: Path) -> None:
    assert node_id_of(tmp_path) == "1"
    (tmp_path / "meta.properties").write_text("node.id=7\ncluster.id=x\n")
    assert node_id_of(tmp_path) == "7"
    (tmp_path / "meta.properties").write_bytes(b"\xff")
    with pytest.raises(Failed, match=r"meta.properties cannot be read"):
        node_id_of(tmp_path)


def test_whether_it_is_served(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    with TestBroker(data_dir=str(tmp_path)):
        assert is_running(tmp_path)
    assert not is_running(tmp_path)
    (tmp_path / ".lock").unlink()
    (tmp_path / ".lock").mkdir()
    with pytest.raises(StorageError, match="cannot open"):
        is_running(tmp_path)


def test_what_is_stored_is_there_again(tmp_path: Path) -> None:
    async def stored(passwords: dict[str, str]) -> set[str]:
        async with without_a_broker(tmp_path / "data") as credentials:
            await credentials.store(passwords)
            return await credentials.known()

    assert asyncio.run(stored({"alice": "x" * 32})) == {"alice"}
    assert asyncio.run(stored({"bob": "y" * 32})) == {"alice", "bob"}
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_nobody_is_locked_out() -> None:
    refuse_known({"a"}, ["b"])
    with pytest.raises(Failed, match="a, c: there is a credential") as caught:
        refuse_known({"a", "b", "c"}, ["c", "a"])
    assert "oncelog credentials remove a" in caught.value.hint
