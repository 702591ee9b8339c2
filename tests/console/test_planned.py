"""Plans that somebody looks at: taken once, by their word and in time; what is no longer so."""

from __future__ import annotations

import pytest

pytest.importorskip("msgspec", reason="the extra oncelog[console]")

from oncelog.console.planned import PLANS_MAX, ROWS_MAX, VALID_S, Plan, Plans, Wanted, shown_table
from oncelog.errors import InvalidArgument
from oncelog.types import TopicPartition

AT = TopicPartition("orders", 0)


def plan(now_s: float = 0) -> Plan:
    return Plan(Wanted("force-terminate", "pay"), (1, 2), "pay", ("abort",), "oncelog ...", now_s + VALID_S)


def test_a_plan_is_taken_once_by_its_word_and_in_time() -> None:
    now_s = 0.0
    plans, mine = Plans(clock=lambda: now_s), plan()
    plans.keep(mine)
    with pytest.raises(InvalidArgument, match="not confirmed"):
        plans.take(mine.plan_id, "yes")
    assert plans.take(mine.plan_id, "pay") is mine
    with pytest.raises(InvalidArgument, match="over"):
        plans.take(mine.plan_id, "pay")
    late = plan()
    plans.keep(late)
    now_s = VALID_S
    with pytest.raises(InvalidArgument, match="over"):
        plans.take(late.plan_id, "pay")


def test_plans_are_bounded() -> None:
    plans = Plans(clock=lambda: 0.0)
    made = [plan() for _ in range(PLANS_MAX + 1)]
    for each in made:
        plans.keep(each)
    with pytest.raises(InvalidArgument):
        plans.take(made[0].plan_id, "pay")
    assert plans.take(made[-1].plan_id, "pay") is made[-1]


@pytest.mark.parametrize(("kept", "is_so"), [((0, 9), True), ((3, 9), True), ((4, 9), False), ((0, 2), False)])
def test_a_position_that_has_gone_from_its_log_is_not_stored(kept: tuple[int, int], is_so: bool) -> None:
    """A reader would begin where auto.offset.reset says, and nobody would know."""

    def seen(kept: tuple[int, int], position: int) -> Plan:
        return Plan(
            Wanted("reset-offsets"), (1,), "g", ("move",), "oncelog ...", VALID_S, (), (), {AT: position}, {AT: kept}
        )

    assert seen((0, 9), 3).is_still_so(seen(kept, 5)) is is_so


def test_a_table_that_nobody_would_read_to_the_end_says_so() -> None:
    assert shown_table(("n",), ((1,),)) == {"columns": ["n"], "rows": [["1"]], "more": ""}
    long = shown_table(("n",), tuple((each,) for each in range(ROWS_MAX + 2)))
    assert (len(long["rows"]), long["more"]) == (ROWS_MAX, "and 2 rows more")
