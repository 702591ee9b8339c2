"""Reading a pipe beside a running loop."""

from __future__ import annotations

import asyncio
import io
import os
import pathlib
from typing import IO

from oncelog.cli.byte_chunks import byte_chunks


async def everything(file: IO[bytes]) -> bytes:
    return b"".join([chunk async for chunk in byte_chunks(file)])


def test_memory_and_files_are_read_directly(tmp_path: pathlib.Path) -> None:
    data = bytes(range(256)) * 1000
    assert asyncio.run(everything(io.BytesIO(data))) == data
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file:
        assert asyncio.run(everything(file)) == data


def test_a_file_is_read_from_where_its_reader_was(tmp_path: pathlib.Path) -> None:
    """Not from where its buffer ends."""
    (tmp_path / "file").write_bytes(b"header\nrecords\n")
    with (tmp_path / "file").open("rb") as file:
        assert file.readline() == b"header\n"
        assert asyncio.run(everything(file)) == b"records\n"


def test_a_pipe_that_waits_holds_up_nobody() -> None:
    reading, writing = os.pipe()

    async def both() -> tuple[bytes, list[str]]:
        said: list[str] = []

        async def write() -> None:
            for _ in range(3):
                await asyncio.sleep(0)
                os.write(writing, b"x" * 10)
                said.append("written")
            os.close(writing)

        with os.fdopen(reading, "rb") as file:
            async with asyncio.TaskGroup() as group:
                group.create_task(write())
                got = await everything(file)
        return got, said

    assert asyncio.run(both()) == (b"x" * 30, ["written"] * 3)
