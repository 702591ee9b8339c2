"""`Broker` at its door: what it is given, and what may be asked of it when."""

from __future__ import annotations

import asyncio
import pathlib
import re
from typing import Any

import pytest

from oncelog import Broker
from oncelog.broker.config.config import ConfigInvalid
from oncelog.errors import IllegalState, InvalidArgument, StorageError


@pytest.mark.parametrize("data_dir", ["", " ", {}, {"num.partitions": "3"}, 5, b"data", ["data"], "a\0b"])
def test_what_names_no_directory_is_refused(data_dir: Any) -> None:
    """An empty one was the root of the file system."""
    with pytest.raises(InvalidArgument, match="data_dir must be "):
        Broker(data_dir)


def test_a_config_in_the_place_of_the_directory_is_told_its_own() -> None:
    says = r"not of type dict: its config is the second argument: Broker\(config=\.\.\.\)$"
    with pytest.raises(InvalidArgument, match=says) as refused:
        Broker({"ssl.key.password": "secret"})  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)


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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"config": "x"}, "config must be a mapping of Kafka's keys to values, not of type str"),
        ({"config": ""}, "config must be a mapping"),
        ({"config": []}, "config must be a mapping"),
        ({"config": 0}, "config must be a mapping"),
        ({"config": {5: "x"}}, "a key of config must be text, not 5 (int)"),
        (
            {"config": {"log.dirs": None}},
            "not None: leave the key out for its default",
        ),  # it was a directory of that name
        (
            {"config": {"log.dirs": ["a"]}},
            "config['log.dirs'] must be text, a number, True or False, not of type list: several are one",
        ),
        (
            {"config": {"ssl.key.password": b"secret"}},
            "config['ssl.key.password'] must be text, a number, True or False, not of type bytes",
        ),
        (
            {"listen": []},
            "listen must be HOST:PORT, or several, not [] (list): 127.0.0.1:0 is a free port of this machine",
        ),
        ({"listen": None}, "listen must be HOST:PORT, or several, not None"),
        ({"listen": 9092}, "listen must be HOST:PORT, or several, not 9092 (int)"),
        ({"listen": b"127.0.0.1:0"}, "listen must be HOST:PORT, or several"),
        ({"listen": {"a": 1}}, "listen must be HOST:PORT, or several"),
        ({"listen": ("127.0.0.1", 0)}, "listen[1] must be HOST:PORT, as text, not 0 (int)"),
        ({"host": "127.0.0.1:9092"}, "host must be a Host, not '127.0.0.1:9092' (str): an address is given as listen="),
        ({"processes": 2}, "processes must be a Processes, not 2 (int)"),
    ],
)
def test_wrong_arguments_are_told_by_name(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(says)) as refused:
        Broker(**arguments)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("listen", ["", "x", "127.0.0.1", "127.0.0.1:99999", ["127.0.0.1:0", ""]])
def test_an_address_that_is_none_is_told_at_the_start(listen: Any) -> None:
    with pytest.raises(ConfigInvalid, match="HOST:PORT"):
        asyncio.run(Broker(listen=listen).start())


@pytest.mark.parametrize(
    ("listen", "says"),
    [
        ("0.0.0.0:0", "or allow it with oncelog.insecure.listeners=true"),
        (["127.0.0.1:21801"] * 2, "listen: 127.0.0.1:21801: the address stands there twice"),
    ],
)
def test_the_way_out_is_one_that_a_program_has(listen: Any, says: str) -> None:
    """Options of the command line were named, and a program has none."""
    with pytest.raises(ConfigInvalid, match=re.escape(says)):
        asyncio.run(Broker(listen=listen).start())


@pytest.mark.parametrize("name", ["bootstrap_servers", "advertised_address", "metadata", "data_directory"])
def test_what_a_start_decides_is_not_known_before_it(name: str) -> None:
    with pytest.raises(IllegalState, match="this broker was not started: use `async with`"):
        getattr(Broker(), name)


def test_a_directory_that_was_named_is_known_at_once(tmp_path: pathlib.Path) -> None:
    assert Broker(tmp_path).data_directory == str(tmp_path)


def test_a_broker_has_one_life() -> None:
    """A second start of one that ran lost the first one's address; of one that was stopped it said `tasks are closed`."""

    async def work() -> None:
        async with Broker() as broker:
            address, directory = broker.bootstrap_servers, broker.data_directory
            with pytest.raises(IllegalState, match="this broker runs already"):
                await broker.start()
            with pytest.raises(IllegalState, match="this broker runs already"):
                await broker.recover_directory()
            assert (broker.bootstrap_servers, broker.data_directory) == (address, directory)
            assert broker.is_ready
        assert broker.bootstrap_servers == address  # whom a client asks for who it was
        for again in (broker.start, broker.recover_directory):
            with pytest.raises(IllegalState, match="this broker is over: make a new one"):
                await again()
        directories.append(directory)

    directories: list[str] = []
    asyncio.run(work())
    assert not pathlib.Path(directories[0]).exists()


def test_two_starts_at_once_are_one() -> None:
    async def work() -> None:
        broker = Broker()
        one, other = await asyncio.gather(broker.start(), broker.start(), return_exceptions=True)
        assert one is None
        assert isinstance(other, IllegalState)
        assert "is being started" in str(other)
        await broker.stop()

    asyncio.run(work())


def test_a_start_that_failed_is_the_end(tmp_path: pathlib.Path) -> None:
    async def work() -> None:
        (tmp_path / "file").touch()
        broker = Broker(tmp_path / "file")
        with pytest.raises(StorageError):
            await broker.start()
        for _ in range(2):
            with pytest.raises(IllegalState, match="this broker is over: make a new one"):
                await broker.start()
        with pytest.raises(IllegalState, match="this broker is over"):
            _ = broker.bootstrap_servers

    asyncio.run(work())
