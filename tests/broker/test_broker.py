"""`Broker` at its door: what it is given, and what may be asked of it when."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import pytest

from oncelog import Broker
from oncelog.broker.config.config import ConfigInvalid
from oncelog.errors import InvalidArgument


@pytest.mark.parametrize("data_dir", ["", " ", {}, {"num.partitions": "3"}, 5, b"data", ["data"], "a\0b"])
def test_what_names_no_directory_is_refused(data_dir: Any) -> None:
    """An empty one was the root of the file system."""
    with pytest.raises(InvalidArgument, match="data_dir must be "):
        Broker(data_dir)


def test_a_config_in_the_place_of_the_directory_is_told_its_own() -> None:
    with pytest.raises(InvalidArgument, match=r"its config is the second argument: Broker\(config=\.\.\.\)$"):
        Broker({"num.partitions": "3"})  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["log.dirs", "log.dir"])
def test_a_config_whose_directory_has_no_name_is_refused(key: str) -> None:
    for value in ("", ",data"):
        with pytest.raises(ConfigInvalid, match=f"{key}='{value}'"):
            Broker(config={key: value})


def test_a_path_object_is_taken(tmp_path: pathlib.Path) -> None:
    async def work() -> str:
        async with Broker(tmp_path / "data") as broker:
            return broker.data_directory

    assert asyncio.run(work()) == str(tmp_path / "data")
    assert (tmp_path / "data" / "meta.properties").exists()
