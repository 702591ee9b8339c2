"""What keeps a member out of its group."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.client.obstacle import Obstacle, rights_may_come


def test_a_missing_right_is_told_once_for_each_answer_until_it_is_there() -> None:
    obstacle = Obstacle()
    obstacle.raise_error()
    for _ in range(2):
        obstacle.met(errors.GroupAuthorization("no"))
        assert not obstacle.is_known
        with pytest.raises(errors.GroupAuthorization):
            obstacle.raise_error()
        assert obstacle.is_known
        assert not obstacle.is_final
    assert obstacle.passed()
    assert not obstacle.passed()
    assert not obstacle.is_known
    obstacle.raise_error()


def test_what_is_final_stays() -> None:
    obstacle = Obstacle()
    obstacle.met(errors.FencedInstanceId("over"))
    assert not obstacle.passed()
    obstacle.met(errors.GroupAuthorization("no"))
    for _ in range(2):
        assert obstacle.is_final
        with pytest.raises(errors.FencedInstanceId):
            obstacle.raise_error()
        assert not obstacle.is_known, "no other answer is waited for"


def test_which_rights_may_come() -> None:
    assert rights_may_come(errors.TopicAuthorization("no"))
    assert not rights_may_come(errors.InvalidGroupId("no"))
