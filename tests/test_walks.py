"""ARCHITECTURE.md draws the walks of four requests: real ones are followed here, and the files compared.

`python -m tests.test_walks` prints the lists as they are today.
"""

from __future__ import annotations

import asyncio
import pathlib
import re
import sys
from collections.abc import Coroutine
from typing import Any

import pytest
from evidence.world.broker import Client, broker_and_client, run, until

import oncelog
from oncelog.types import TopicPartition

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = pathlib.Path(oncelog.__file__).parent
FLOORS = ("broker/", "core/")
LEFT_OUT = ("broker/metrics/", "broker/config/", "broker/node.py", "broker/partitions/measured_syncer.py")
WALKS = ("door", "Produce", "Produce in a transaction", "EndTxn", "Fetch")


def drawn() -> dict[str, list[str]]:
    """The walks of the page, by name."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text[text.index("<!-- walks:") : text.index("## Not obvious")]
    items = re.findall(r"^\* (.+?): ((?:.|\n(?!\*|\n))+)", section, re.MULTILINE)
    return {name: re.findall(r"`([a-z_/0-9]+\.py)`", files) for name, files in items}


class Footprints:
    """The package's files in the order in which functions of theirs are first called."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}

    def step(self, frame: Any, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(PACKAGE)) and frame.f_code.co_name != "<module>":
            file = pathlib.Path(name).relative_to(PACKAGE).as_posix()
            if file.startswith(FLOORS) and not file.startswith(LEFT_OUT):
                self.files[file] = None


async def followed(work: Coroutine[Any, Any, object]) -> list[str]:
    """The files that run while `work` does."""
    footprints, before = Footprints(), sys.getprofile()
    sys.setprofile(footprints.step)
    try:
        await work
    finally:
        sys.setprofile(before)
    return list(footprints.files)


async def walks_of(directory: pathlib.Path) -> dict[str, list[str]]:
    """What runs for each walk of today's broker. The second request of a kind is followed: the first one imports."""
    async with broker_and_client(directory) as (broker, client):
        await client.create("t")
        producer = await client.init("id")
        options = {"producer": producer, "transactional_id": "id"}
        rules = broker.partitions.get(TopicPartition("t", 0)).rules

        async def end(client: Client) -> None:
            await client.end("id", producer, commit=True)
            await until(lambda: rules.last_stable_offset == rules.high_watermark)
            coordinator = next(broker.transactions.loaded())
            await until(lambda: not coordinator.machine.is_busy("id"))

        await client.produce("t", "a", sequence=0, **options)
        await client.produce("t", "b")
        await client.read("t")
        found = {
            "Produce": await followed(client.produce("t", "c")),
            "Produce in a transaction": await followed(client.produce("t", "d", sequence=1, **options)),
            "Fetch": await followed(client.read("t")),
            "EndTxn": await followed(end(client)),
        }
    inside = {name: split(files)[1] for name, files in found.items()}
    return {"door": split(found["Produce"])[0], **{name: inside[name] for name in WALKS[1:]}}


def split(files: list[str]) -> tuple[list[str], list[str]]:
    """What comes before the handler's own file, and the rest."""
    handler = next(index for index, file in enumerate(files) if file.count("/") == 3 and "/handlers/" in file)
    return files[:handler], files[handler:]


@pytest.mark.skipif(sys.getprofile() is not None, reason="another profiler runs")
def test_the_walks_are_those_of_the_page(tmp_path: pathlib.Path) -> None:
    page = drawn()
    assert tuple(page) == WALKS
    found = run(walks_of(tmp_path))
    assert {name: sorted(files) for name, files in found.items()} == {n: sorted(files) for n, files in page.items()}


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for walk, files in asyncio.run(walks_of(pathlib.Path(folder))).items():
            print(f"* {walk}: " + " ".join(f"`{file}`" for file in files) + f" ({len(files)})")
