"""Quotas in words."""

from __future__ import annotations

import pytest

from oncelog.cli.quota_text import entity_text, number_text


def test_whose_a_quota_is() -> None:
    assert entity_text({"user": "alice", "client-id": None}) == "user alice, client-id default"


@pytest.mark.parametrize(
    ("value", "text"), [(1_234_567.0, "1234567"), (1e9, "1000000000"), (0.1, "0.1"), (2.0**53, "9.00719925474099e+15")]
)
def test_a_number_is_shown_whole(value: float, text: str) -> None:
    assert number_text(value) == text
