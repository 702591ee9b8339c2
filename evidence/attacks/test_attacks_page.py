"""docs/attacks.md has every attack, and what Apache Kafka did with it."""

from __future__ import annotations

from tools import attacks_page as page

from evidence.attacks.attack import ATTACKS
from evidence.attacks.record import recorded


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "python -m tools.attacks_page"


def test_what_apache_kafka_did_is_recorded_of_every_attack_that_it_got() -> None:
    assert set(recorded()) == {name for name, each in ATTACKS.items() if not each.not_asked}
