"""UUIDs as text."""

from __future__ import annotations

from uuid import UUID

from oncelog.wire.schema import ZERO_UUID
from oncelog.wire.uuids import uuid_text


def test_as_kafka_writes_them():
    assert uuid_text(ZERO_UUID) == "A" * 22
    assert uuid_text(UUID("fbfffbff-fbff-fbff-fbff-fbfffbfffbff").bytes) == "-__7__v_-__7__v_-__7_w"
