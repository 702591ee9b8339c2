"""Describing many groups in one question; one that has gone or may not be seen hides no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from oncelog import Admin
from oncelog.client.admin.groups import GroupDescription
from oncelog.console.group_judging import described
from oncelog.errors import GroupAuthorization, GroupIdNotFound


class Groups:
    """Knows "a" and "b"; "hidden" may not be seen, others there are none of."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def describe_groups(self, names: Iterable[str], *, unreachable: object = None) -> dict[str, GroupDescription]:
        wanted = list(names)
        self.asked.append(wanted)
        for each in wanted:
            if each == "hidden":
                raise GroupAuthorization("no")
            if each not in ("a", "b"):
                raise GroupIdNotFound("no")
        return {each: GroupDescription(each, "Empty", "consumer", "", 1, ()) for each in wanted}


def names_of(groups: Groups, *names: str) -> list[str]:
    admin: Any = groups
    return list(asyncio.run(described(cast("Admin", admin), names)))


def test_many_groups_are_one_question() -> None:
    groups = Groups()
    assert names_of(groups, "a", "b") == ["a", "b"]
    assert groups.asked == [["a", "b"]]
    assert names_of(groups) == []
    assert len(groups.asked) == 1


def test_what_is_gone_or_hidden_hides_nothing_else() -> None:
    for missing in ("gone", "hidden"):
        assert names_of(Groups(), "a", missing, "b") == ["a", "b"]
