"""docs/tools-beside.md is what the last comparison with Apache Kafka's tools said, and it asked all that is asked today."""

from __future__ import annotations

import json

import pytest

from evidence.compat import tools_beside
from evidence.compat.tools_beside import GROUP_SETS, KAFKA, ONCELOG, TRANSACTION_SETS, problems, shown, values

RECORD = json.loads(tools_beside.RECORD.read_text())


def test_the_page_is_current() -> None:
    assert tools_beside.PAGE.read_text() == tools_beside.render(RECORD), "python -m evidence.compat.tools_beside"


@pytest.mark.parametrize("broker", [KAFKA, ONCELOG])
def test_everything_was_asked_and_nothing_differs_without_a_reason(broker: str) -> None:
    asked = {(each["tool"], *each["arguments"]) for each in RECORD[broker]}
    assert asked == {
        *(("kafka-transactions", *each) for each in TRANSACTION_SETS),
        *(("kafka-consumer-groups", *each.apache) for each in GROUP_SETS),
    }
    assert problems(broker, RECORD[broker]) == []


def test_a_difference_without_a_reason_is_told_and_so_is_a_reason_without_one() -> None:
    row = {"tool": "t", "arguments": ["a"], "differs": "exit status 1", "reason": ""}
    assert problems("b", [row]) == ["b: t a: exit status 1"]
    assert problems("b", [row | {"differs": "", "reason": "why"}]) == ["b: t a: the same"]
    assert problems("b", [row | {"reason": "why"}, row | {"differs": ""}]) == []


def test_rows_are_compared_in_order_without_durations() -> None:
    lines = ["Id TransactionDurationMs State", "b 17 Ongoing", "a 3 Empty"]
    assert shown(lines) == ["Id TransactionDurationMs State", "a N Empty", "b N Ongoing"]
    assert shown([]) == []


def test_columns_are_found_by_their_titles() -> None:
    lines = ["a word before", "GROUP TOPIC LAG", "g t 3", "h u -"]
    assert values(lines, ("GROUP", "LAG")) == [["g", "3"], ["h", "-"]]
    assert values(["one", "two"], ()) == [["one"], ["two"]]
    assert values(["Error: none"], ("GROUP",)) == []
