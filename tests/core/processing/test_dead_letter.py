"""The headers of a dead letter."""

from __future__ import annotations

from oncelog.core.processing.dead_letter import MESSAGE_BYTES_MAX, dead_letter_headers
from oncelog.core.processing.steps import Failure, Place
from oncelog.types import TopicPartition

PLACE = Place(TopicPartition("orders", 3), 42)


def test_they_say_where_the_record_was_and_what_it_failed_of_behind_its_own():
    failure = Failure(ZeroDivisionError("by zero"), 6, is_final=True)
    headers = dead_letter_headers((("trace", b"1"),), PLACE, failure, group_id="totals", timestamp_ms=1700)
    assert headers == (
        ("trace", b"1"),
        ("__oncelog.errors.topic", b"orders"),
        ("__oncelog.errors.partition", b"3"),
        ("__oncelog.errors.offset", b"42"),
        ("__oncelog.errors.timestamp", b"1700"),
        ("__oncelog.errors.group", b"totals"),
        ("__oncelog.errors.attempts", b"6"),
        ("__oncelog.errors.exception", b"builtins.ZeroDivisionError"),
        ("__oncelog.errors.message", b"by zero"),
    )


def test_a_message_is_cut_and_always_has_bytes():
    headers = dict(
        dead_letter_headers((), PLACE, Failure(ValueError("\ud800" + "x" * 9000)), group_id="g", timestamp_ms=-1)
    )
    message = headers["__oncelog.errors.message"]
    assert message is not None
    assert message.startswith(b"\\ud800xx")
    assert len(message) == MESSAGE_BYTES_MAX
