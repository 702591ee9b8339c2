"""Our decisions are those that Apache Kafka's StandardAuthorizer took about the recorded worlds, and the comparison can fail."""

from __future__ import annotations

import dataclasses

import pytest

from evidence.authorizer.__main__ import RECORD, RECORDED_QUESTIONS, RECORDED_WORLDS, Apache, compare
from evidence.authorizer.worlds import drawn
from oncelog.core.access import authorizer
from oncelog.core.metadata.acl import AclBinding
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType

RECORDED = dict(line.split() for line in RECORD.read_text().splitlines())


def differing() -> list[int]:
    """Seeds of the worlds about which we say something else."""
    worlds = ((seed, drawn(seed, RECORDED_QUESTIONS)) for seed in range(RECORDED_WORLDS))
    return [seed for seed, world in worlds if world.answers_without_stars() != RECORDED[str(seed)]]


def test_the_recorded_decisions() -> None:
    assert len(RECORDED) == RECORDED_WORLDS
    assert not differing()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_IMPLIED_BY", {}),
        ("_is_for", lambda acl, who: acl.principal in ("User:*", who.principal)),
        ("_outweighs", lambda denial, allowed: False),
        ("_is_same_host", lambda named, host: named == host),
    ],
)
def test_a_wrong_rule_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, wrong: object) -> None:
    monkeypatch.setattr(authorizer, name, wrong)
    assert differing()


def test_a_name_that_begins_with_a_star_is_one_of_all_names_here() -> None:
    """docs/differences-from-kafka.md."""
    denial = AclBinding(ResourceType.GROUP, "*", PatternType.LITERAL, "User:*", "*", Operation.READ, Permission.DENY)
    world = dataclasses.replace(
        drawn(1, 0),
        allows_without_acl=True,
        super_users="",
        rules=(denial,),
        questions=((int(ResourceType.GROUP), "*a", "User:a", "127.0.0.1", int(Operation.READ)),),
    )
    assert (world.answers(), world.answers_without_stars()) == ("0", "1")


class Never(Apache):
    """It allows nothing."""

    def __init__(self) -> None:
        pass

    def answers(self, world: object) -> str:
        return "0" * len(world.questions)  # type: ignore[attr-defined]


def test_a_difference_is_shown_with_the_rules_that_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(Never(), 3000, 0) > 0
    shown = capsys.readouterr().out
    assert "Apache Kafka says 0:" in shown
    assert "3,000 decisions about 6 worlds, 0 allowed" in shown
