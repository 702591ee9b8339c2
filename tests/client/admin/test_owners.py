"""Whose an open transaction is: what vanishes between two questions is left out, and nobody is asked without a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from oncelog.client.admin.admin import Admin
from oncelog.client.admin.owners import described_if_known, owners_of
from oncelog.client.admin.transaction_listing import TransactionDescription, TransactionListing
from oncelog.errors import TransactionalIdNotFound


class Coordinators:
    """Lists "kept" and "gone", and knows only the first any more."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def list_transactions(self, *, producer_ids: Iterable[int], unreachable: object) -> list[TransactionListing]:
        self.asked.append(f"list {sorted(producer_ids)}")
        return [TransactionListing("gone", 1, "Ongoing", 1), TransactionListing("kept", 2, "Ongoing", 1)]

    async def describe_transactions(self, names: Iterable[str]) -> dict[str, TransactionDescription]:
        wanted = list(names)
        self.asked.append(f"describe {wanted}")
        if "gone" in wanted:
            raise TransactionalIdNotFound("transactional id 'gone'")
        return {each: TransactionDescription(each, 1, "Ongoing", 2, 0, 60_000, 0, (), 5) for each in wanted}


def ask(question: Any) -> Any:
    coordinators = Coordinators()
    return asyncio.run(question(cast("Admin", coordinators))), coordinators.asked


def test_an_id_that_vanishes_while_we_ask_is_left_out() -> None:
    found, asked = ask(lambda admin: owners_of(admin, [2, 1, 2]))
    assert {producer_id: each.transactional_id for producer_id, each in found.items()} == {2: "kept"}
    assert asked == ["list [1, 2]", "describe ['gone', 'kept']", "describe ['gone']", "describe ['kept']"]


def test_nobody_is_asked_about_no_producers() -> None:
    """An empty filter would list every id of the cluster."""
    assert ask(lambda admin: owners_of(admin, [])) == ({}, [])


def test_an_id_that_does_not_exist_has_no_description() -> None:
    assert ask(lambda admin: described_if_known(admin, "gone"))[0] == {}
