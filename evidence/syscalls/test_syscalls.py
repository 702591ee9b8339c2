"""One life of a real broker with every system call recorded and judged; and that what judges can say no."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

from evidence.syscalls import direct
from evidence.syscalls.life import Life
from evidence.syscalls.observed import Observed
from evidence.syscalls.recorder import BEGIN, END, Call, compiler
from evidence.syscalls.removals import equivalent, found
from evidence.syscalls.world import World

HANG_S = 240

needs_compiler = pytest.mark.skipif(
    compiler() is None, reason="NOT CHECKED: what is durable when, by real system calls; that needs a C compiler (cc)"
)
STEPS_MIN = 38  # steps that say less have lost some
RULES_MIN = {"on": 65, "off": 56}  # a life that asks fewer has lost a part of itself


@needs_compiler
@pytest.mark.timeout(HANG_S + 60)
@pytest.mark.parametrize("journal", ["on", "off"])
def test_nothing_is_promised_before_it_is_durable(tmp_path: pathlib.Path, journal: str) -> None:
    observed = Observed(tmp_path)

    async def live() -> None:
        async with asyncio.timeout(HANG_S):
            await Life(observed, journal=journal).run()

    try:
        asyncio.run(live())
    finally:
        observed.end()
    assert not observed.problems, "\n".join(observed.problems[:10])
    assert len(observed.judged) >= RULES_MIN[journal], sorted(observed.judged)


@needs_compiler
def test_each_step_of_the_log_leaves_durable_what_it_promises(tmp_path: pathlib.Path) -> None:
    promises = direct.run(tmp_path)
    assert not promises.problems, "\n".join(promises.problems[:10])
    assert promises.judged.total() >= STEPS_MIN, promises.judged


def test_a_life_that_fails_leaves_no_connection_open() -> None:
    """Collected at some later time it is warned of, and Python 3.11 cannot show that warning in the midst of an `ast.parse`:
    "AST constructor recursion depth mismatch", in a test that has no part in it."""

    class Lost:
        is_closed = False

        async def call(self, *_: object) -> object:
            raise ConnectionResetError

        def close(self) -> None:
            self.is_closed = True

    class Started:
        client = Lost()

        async def start(self, *_: object, **__: object) -> Lost:
            return self.client

    with pytest.raises(ConnectionResetError):
        asyncio.run(Life(Started(), journal="off").run())  # type: ignore[arg-type]
    assert Started.client.is_closed


def call(number: int, name: str, phase: int = END, **fields: object) -> Call:
    values: dict[str, object] = dict.fromkeys(("descriptor", "descriptor2", "offset", "result"), 0)
    values |= {"path": "", "path2": "", "data": b"", **fields}
    return Call(number=number, process=1, thread=1, phase=phase, name=name, **values)  # type: ignore[arg-type]


def synced(world: World, descriptor: int, result: int = 0) -> None:
    world.apply(call(0, "sync", BEGIN, descriptor=descriptor))
    world.apply(call(0, "sync", END, descriptor=descriptor, result=result))


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    """A file "f" with b"one" that is written, and not synced; descriptor 3, and 4 for the directory."""
    world = World(tmp_path)
    world.root.made_durable(world.root.state())
    world.apply(call(0, "open", path=f"{tmp_path}/f", offset=0o102, result=3))
    world.apply(call(1, "open", path=f"{tmp_path}", offset=0, result=4))
    world.apply(call(2, "write", descriptor=3, offset=0, data=b"one", result=3))
    return world


def test_a_name_and_its_bytes_are_durable_each_by_a_sync_of_its_own(world: World) -> None:
    synced(world, 3)
    assert world.durable_bytes("f") is None
    synced(world, 4)
    assert world.durable_bytes("f") == b"one"


def test_a_sync_covers_what_was_written_before_it_began(world: World) -> None:
    synced(world, 4)
    world.apply(call(3, "sync", BEGIN, descriptor=3))
    world.apply(call(4, "write", descriptor=3, offset=3, data=b" two", result=4))
    world.apply(call(5, "sync", END, descriptor=3))
    assert world.durable_bytes("f") == b"one"


def test_what_a_failed_sync_lost_no_later_one_brings_back(world: World) -> None:
    synced(world, 4)
    synced(world, 3, result=-5)
    synced(world, 3)
    assert world.durable_bytes("f") == b""


def test_a_rename_that_is_not_synced_leaves_the_old_name(world: World, tmp_path: pathlib.Path) -> None:
    synced(world, 3)
    synced(world, 4)
    world.apply(call(6, "rename", path=f"{tmp_path}/f", path2=f"{tmp_path}/g"))
    assert (world.durable_bytes("f"), world.durable_bytes("g")) == (b"one", None)


def test_a_call_that_was_not_seen_is_found_on_the_disk(world: World, tmp_path: pathlib.Path) -> None:
    (tmp_path / "f").write_bytes(b"one")
    assert not world.differences()
    (tmp_path / "f").write_bytes(b"two")
    (tmp_path / "unseen").touch()
    assert world.differences() == ["f", "unseen"]


def test_names_that_a_failed_sync_forgot_come_back_only_by_another_change(world: World, tmp_path: pathlib.Path) -> None:
    synced(world, 3)
    synced(world, 4)
    world.apply(call(6, "rename", path=f"{tmp_path}/f", path2=f"{tmp_path}/g"))
    synced(world, 4, result=-5)
    synced(world, 4)
    assert (world.durable_bytes("f"), world.durable_bytes("g")) == (b"one", None)
    world.apply(call(7, "rename", path=f"{tmp_path}/g", path2=f"{tmp_path}/f"))
    world.apply(call(8, "rename", path=f"{tmp_path}/f", path2=f"{tmp_path}/g"))
    synced(world, 4)
    assert (world.durable_bytes("f"), world.durable_bytes("g")) == (None, b"one")


def test_what_is_said_to_change_nothing_is_still_there() -> None:
    """A reason whose place is gone would excuse nothing, or something else."""
    assert set(equivalent()) <= {each.key for each in found()}
    assert all(len(why) > 40 for why in equivalent().values())


def test_every_place_that_makes_durable_is_found_in_the_source() -> None:
    """The list of removals is read from the source; it must not become empty unnoticed."""
    places = {f"{each.file}: {each.what}" for each in found()}
    assert len(places) > 120
    for place in (
        "host/files.py: os.fdatasync(self._descriptor)",
        "host/files.py: os.replace(temporary, path)",
        "host/native_sync.c: fdatasync",
        "log/leftovers.py: files.sync_directory(directory)",
        "log/failed_sync.py: copy.sync()",
        "log/journal.py: self._segments[-1].file.sync()",
        "log/journal.py: taken.files.append(DirectoryNames(self._files, self._data_directory))",
        "broker/partitions/partitions.py: await self._syncer.sync(written.files)",
        "broker/partitions/journal_flusher.py: await self._syncer.sync(taken.files)",
        "broker/partitions/log_cleaner.py: await self._sync_names(partition)",
        "broker/partitions/flusher.py: await self._syncer.sync(list(dict.fromkeys(files)))",
    ):
        assert place in places
