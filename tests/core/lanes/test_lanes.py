"""Words, letters and verdicts of lanes; the picture and the notebook's page: bounded, well-formed, nothing but text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from oncelog.core.diagnosis.transactions import ENDING, HANGING, IN_PROGRESS, TWO_PHASE
from oncelog.core.lanes.drawing import BYTES_MAX, LANES_MAX, _legend
from oncelog.core.lanes.lane import Lane
from oncelog.core.lanes.lanes import Lanes
from oncelog.core.lanes.view import ACTIVE, STOPPED, UNREADABLE, WAITING, Judged, Position
from oncelog.types import TopicPartition
from tests.core.lanes.test_lane import data, marker

NOW = 1_000_000
HTML_BYTES_MAX = 50_000


def lane(partition: int = 0, *batches: Any, stable: int | None = None, end: int = 0, topic: str = "orders") -> Lane:
    found = Lane(TopicPartition(topic, partition), 0, 0)
    for each in batches:
        found.take(each)
    found.log_start_offset, found.high_watermark = 0, end
    found.last_stable_offset = end if stable is None else stable
    return found


def held(partition: int = 0, age_ms: int = 49_000, producer_id: int = 4) -> Lane:
    return lane(partition, data(0, producer_id, NOW - age_ms), data(1, 9, NOW - 5), marker(2, 9, NOW), stable=0, end=3)


def lanes(*found: Lane, **more: Any) -> Lanes:
    return Lanes(NOW, 90_000, found, **more)


def test_three_words_for_a_reader() -> None:
    assert lanes().word(lane(end=5)) == ACTIVE
    assert lanes().word(held(age_ms=2_000)) == WAITING, "a transaction of two seconds is normal"
    assert lanes().word(held()) == STOPPED
    assert lanes().word(Lane(TopicPartition("t", 0), 0, 0)) == UNREADABLE
    damaged = held()
    damaged.error = "CORRUPT_MESSAGE"
    assert lanes().word(damaged) == UNREADABLE, "who reads it comes no further than the damage, whatever is open"
    assert (
        lanes(damaged, lane(1)).verdict() == "Nobody is stopped: 1 partition looked at; 1 partition could not be read"
    )
    assert lanes().word(lane(stable=0, end=3)) == WAITING, "its first batch is not read yet"


def test_who_usually_takes_long_is_waited_for() -> None:
    usual = [data(0, 4, NOW - 80_000), marker(1, 4, NOW - 60_000), data(2, 4, NOW - 30_000)]
    slow = lane(0, *usual, stable=2, end=3)
    assert lanes(slow).word(slow) == WAITING, "20 s is usual: 30 s is no alarm"
    late = lane(0, *usual[:2], data(2, 4, NOW - 60_000), stable=2, end=3)
    assert lanes(late).word(late) == STOPPED


def test_one_transaction_has_one_letter_on_all_lanes() -> None:
    both, other = lanes(held(0), held(1), held(2, 11_000, 5)).open()
    assert (both.letter, both.producer_id, len(both.spans), len(both.holds)) == ("A", 4, 2, 2)
    assert (other.letter, other.producer_id) == ("B", 5)


def test_the_worst_place_is_the_verdict() -> None:
    first, second = held(0), held(1)
    judged = {(first.where, 4): Judged(IN_PROGRESS, NOW + 41_000), (second.where, 4): Judged(HANGING)}
    assert lanes(first, second, judged=judged).open()[0].judged.kind == HANGING


def test_the_headline() -> None:
    names = {4: "nightly-load"}
    text = lanes(held(0), held(1), lane(2, end=4), names=names).verdict()
    assert text == "Stopped: 2 of 3 partitions, oldest by nightly-load for 49s"
    assert lanes(lane(end=4)).verdict() == "Nobody is stopped: 1 partition looked at"
    unread = Lane(TopicPartition("t", 0), 0, 0)
    assert lanes(unread).verdict() == "Nothing could be read of 1 partition", "no all-clear"
    assert lanes(held(), unread).verdict().endswith("oldest by producer 4 for 49s; 1 partition could not be read")


@pytest.mark.parametrize(
    ("judged", "says"),
    [
        (Judged(IN_PROGRESS, NOW + 41_000), "aborts in 41s"),
        (Judged(IN_PROGRESS, NOW - 1), "is aborted at the coordinator's next look"),
        (Judged(TWO_PHASE), "∞ waits for its database"),
        (Judged(HANGING), "∞ never ends by itself"),
        (Judged(ENDING), "marker on the way"),
        (Judged("unknown"), "commits or aborts"),
    ],
)
def test_what_will_happen(judged: Judged, says: str) -> None:
    assert lanes().future(judged) == says


def test_the_picture_says_what_happens() -> None:
    at = held()
    more = {"names": {4: "nightly-load"}, "judged": {(at.where, 4): Judged(IN_PROGRESS, NOW + 41_000)}}
    text = lanes(at, positions=[Position("billing", at.where, 0, 0, 3, 3)], **more).to_svg()
    shown = " ".join(each.text or "" for each in ET.fromstring(text).iter())
    for wanted in (
        "orders-0",
        "■ stopped",
        "nightly-load",
        "… aborts in 41s",
        "3 offsets behind LSO 0",
        "billing reads here",
    ):
        assert wanted in shown, wanted
    assert "<script" not in text


def test_names_are_text() -> None:
    """Whoever may begin a transaction chooses its name."""
    evil = "<img src=x onerror=alert(1)>"
    page = lanes(held(), names={4: evil})._repr_html_()
    assert "<img" not in page
    assert "&lt;img" in page


def busy(partition: int) -> Lane:
    batches = []
    for n in range(1000):
        at, producer_id = NOW - 90_000 + n * 90, n % 40
        batches += [data(2 * n, producer_id, at), marker(2 * n + 1, producer_id, at + 40, commit=n % 9 > 0)]
    return lane(partition, *batches, data(2000, 77, NOW - 60_000), stable=2000, end=2001)


def test_a_notebook_gets_no_more_than_50_kb() -> None:
    names = {n: f"an-application-with-a-long-name-{n}" for n in range(100)}
    many = [busy(n) for n in range(LANES_MAX + 3)]
    found = lanes(*many, names=names)
    page = found._repr_html_()
    assert len(found.to_svg().encode()) <= BYTES_MAX
    assert len(page.encode()) <= HTML_BYTES_MAX
    assert "and 3 more partitions" in page


def test_arrow_has_a_row_for_each_span() -> None:
    at = held()
    table = lanes(at, names={9: "quick"}, judged={(at.where, 4): Judged(TWO_PHASE)}).to_arrow()
    assert table.select(["transactional_id", "producer_id", "outcome", "kind", "end_ms"]).to_pylist() == [
        {"transactional_id": "quick", "producer_id": 9, "outcome": "committed", "kind": None, "end_ms": NOW},
        {"transactional_id": None, "producer_id": 4, "outcome": "open", "kind": "two-phase", "end_ms": None},
    ]


def test_the_legend_has_batches_in_what_is_in_progress_only() -> None:
    legend = ET.fromstring(f"<svg>{_legend(0)}</svg>")
    ticked = [group.get("class") for group in legend.iter("g") if group.find("path") is not None]
    assert (ticked, len(list(legend.iter("path")))) == (["progress"], 1)
