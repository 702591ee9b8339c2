"""What a look asks: as little as answers it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from oncelog import Admin
from oncelog.cli.watch import looks as module
from oncelog.cli.watch.looks import Looks
from oncelog.core.diagnosis.watching import Watching
from tests.cli.world import Cli

QUIET = Counter(list_topics=1, list_transactions=1, list_offsets=2)


class Counting:
    """An admin that counts what it is asked."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            self.asked[name] += 1
        return getattr(self._admin, name)


async def asked_by(cli: Cli, looks: Looks, *moments_ms: int) -> list[Counter[str]]:
    found = []
    async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
        for now_ms in moments_ms:
            counting = Counting(admin)
            await looks.look(counting, now_ms)  # type: ignore[arg-type]
            found.append(counting.asked)
    return found


def test_a_quiet_cluster_is_asked_four_things(cli: Cli) -> None:
    cli.create("looks-quiet", 3)
    (asked,) = asyncio.run(asked_by(cli, Looks(["looks-quiet"], Watching(0)), 0))
    assert asked - Counter(describe_transactions=1) == QUIET  # others' transactions may be open: they are described


def test_groups_and_owners_are_asked_while_something_stands_and_not_each_time(cli: Cli) -> None:
    cli.create("looks-ghost")
    cli.leave_hanging("looks-ghost", "looks-ghost-app")
    first, second, later = asyncio.run(asked_by(cli, Looks(["looks-ghost"], Watching(0)), 0, 2_000, 31_000))
    assert (first["list_groups"], first["find_hanging_transactions"]) == (1, 1)
    assert (second["list_groups"], second["find_hanging_transactions"], second["describe_producers"]) == (0, 0, 1)
    assert (later["list_groups"], later["find_hanging_transactions"]) == (1, 1)


def test_of_many_partitions_only_those_with_a_transaction_are_asked_each_time(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EACH_LOOK_MAX", 2)
    cli.create("looks-many", 6)
    looks, wanted = Looks(["looks-many"], Watching(0)), []

    async def work() -> None:
        async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
            list_offsets = admin.list_offsets

            async def counted(each: Any, **more: Any) -> Any:
                wanted.append(len(each))
                return await list_offsets(each, **more)

            monkeypatch.setattr(admin, "list_offsets", counted)
            await looks.look(admin, 0)
            await asyncio.to_thread(cli.leave_open, "looks-many", "looks-many-app")
            seen = await looks.look(admin, 2_000)
            assert [str(each.where) for each in seen.picture.blocked] == ["looks-many-0"]
            assert len(seen.picture.partitions) == 6
            await looks.look(admin, 31_000)

    asyncio.run(work())
    assert wanted == [6, 6, 1, 1, 6, 6]
