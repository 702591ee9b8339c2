"""What Spark stores of a stream's position survives being stored, and says what it is."""

from __future__ import annotations

import json

import pytest

from oncelog.errors import ConfigurationError
from oncelog.spark.stream_offset import StreamOffset, from_json, to_json, topic_id_text


@pytest.mark.parametrize(
    "offset",
    [
        StreamOffset(None),
        StreamOffset({"t": {0: 5, 10: 7}}),
        StreamOffset({"t": {0: 5}}, {"t": "abc"}, {"t": {0: 1}}),
    ],
)
def test_an_offset_survives_sparks_json(offset: StreamOffset) -> None:
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_offsets_survive_sparks_json() -> None:
    offsets = {"b": {0: 1}, "a": {10: 2, 2: 3}}
    assert from_json(to_json(offsets)) == offsets


def test_a_checkpoint_of_an_older_version_has_no_ids() -> None:
    assert StreamOffset.from_json({"v": 1, "t": {"t": {"0": 3}}, "init": {"t": {"0": 0}}}) == StreamOffset(
        {"t": {0: 3}}, {}, {"t": {0: 0}}
    )


def test_a_checkpoint_of_sparks_own_source_is_read() -> None:
    found = StreamOffset.from_json({"a": {"0": 3, "1": 4}, "v": {"0": 1}})
    assert (found.offsets, found.topic_ids, found.is_kafkas) == ({"a": {0: 3, 1: 4}, "v": {0: 1}}, {}, True)


@pytest.mark.parametrize(
    "content", [{"v": 2, "t": {}}, {"v": 1}, {"v": 1, "t": {"t": 3}}, {"v": 1, "t": {"t": {"x": 1}}}]
)
def test_what_cannot_be_read_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="the checkpoint has a position"):
        StreamOffset.from_json(content)


def test_a_topic_id_is_written_as_kafkas_tools_do() -> None:
    assert topic_id_text(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"
    assert topic_id_text(bytes(16)) == ""
