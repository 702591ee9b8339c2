"""Keys named on a command line."""

from __future__ import annotations

import click
import pytest

from oncelog.cli.key_names import check_known, each_once
from oncelog.errors import ErrorCode, InvalidRequest


def test_a_key_is_given_once() -> None:
    assert each_once(("b", "a")) == ["b", "a"]
    with pytest.raises(click.UsageError, match="b is given twice"):
        each_once(("b", "a", "b"))


def test_the_nearest_name_is_told() -> None:
    check_known("quota", ["byte_rate"], ("byte_rate",), ErrorCode.INVALID_REQUEST)
    with pytest.raises(InvalidRequest, match=r"Unknown quota: byte_rat \(did you mean byte_rate\?\)"):
        check_known("quota", ["byte_rat"], ("byte_rate",), ErrorCode.INVALID_REQUEST)
    with pytest.raises(InvalidRequest, match=r"Unknown quota: zzz$"):
        check_known("quota", ["zzz"], ("byte_rate",), ErrorCode.INVALID_REQUEST)
