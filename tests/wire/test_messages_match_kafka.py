"""Every message class against Apache Kafka's own definitions (tests/data/kafka_messages.json)."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any

import pytest
from evidence.world.message_values import MESSAGES

from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.schema import EMPTY, FOREVER, ZERO_UUID, Field, Fixed, Sized, Struct
from tests.data.make_kafka_messages import DIGEST, digest, to_text

KAFKA: dict[str, Any] = json.loads(DIGEST.read_text())
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
JAR = CACHE / "oracle-apache-kafka/4.3.0/kafka-clients-4.3.0.jar"

# Names that Kafka's rule would make unreadable, or that say too little ("epoch" alone: of what?).
FIELD_NAMES = {
    "Enable2Pc": "enable_2pc",
    ("EpochEndOffset", "Epoch"): "leader_epoch",
    ("SnapshotId", "Epoch"): "leader_epoch",
    ("Topology", "Epoch"): "topology_epoch",
}
# Kafka keeps requests and responses in files of their own and uses some names in both, for different structs.
STRUCT_NAMES = {
    ("AlterClientQuotasResponse", "EntryData"): "EntryDataResponse",
    ("DescribeQuorumRequest", "TopicData"): "TopicDataRequest",
    ("DescribeQuorumRequest", "PartitionData"): "PartitionDataRequest",
}
OUR_FIELDS = {
    ("WritableTxnMarkerTopic", "txn_start_offsets"),
    ("EndTxnRequest", "needed"),
    ("EndTxnRequest", "attempt"),
}
LAYOUTS = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"} | {
    "uuid": "16s"
}

Versions = range


def versions_of(text: str, within: Versions) -> Versions:
    if text == "none":
        return range(0)
    first, _, last = text.rstrip("+").partition("-")
    last_version = FOREVER if text.endswith("+") else int(last or first)
    return range(max(int(first), within.start), min(last_version + 1, within.stop))


def python_name(struct: str, name: str) -> str:
    special = FIELD_NAMES.get((struct, name)) or FIELD_NAMES.get(name)
    return special or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def default_of(definition: dict[str, Any], wire: Any) -> Any:
    """The default as Kafka's generator understands it."""
    text = definition.get("default")
    if text == "null" or definition["type"] == "records":
        return None
    if isinstance(wire, type):
        return wire()
    if isinstance(wire, Sized):
        return {"array": EMPTY, "bytes": b"", "string": text or ""}[wire.kind]
    if wire.layout == "16s":
        return ZERO_UUID
    if wire.layout == "?":
        return text == "true"
    return float(text or 0) if wire.layout == "d" else int(str(text or 0), 0)


class Comparison:
    def __init__(self, message: str) -> None:
        self.message = message
        self.common = KAFKA[message].get("common", {})

    def struct(self, cls: type[Struct], name: str, fields: list[dict[str, Any]], live: Versions) -> None:
        ours = [field for field in cls.FIELDS if (name, field.name) not in OUR_FIELDS]
        assert [field.name for field in ours] == [python_name(name, field["name"]) for field in fields], name
        for field, definition in zip(ours, fields, strict=True):
            self.field(field, definition, live, f"{self.message} {name}.{field.name}")

    def field(self, field: Field, definition: dict[str, Any], live: Versions, path: str) -> None:
        present = versions_of(definition["versions"], live)
        assert [version for version in live if field.in_version(version)] == list(present), path
        nullable = versions_of(definition.get("nullable", "none"), present)
        assert [version for version in present if field.nullable_in(version)] == list(nullable), path
        assert field.tag == definition.get("tag"), path
        assert versions_of(definition.get("tagged", "none"), live) == (present if "tag" in definition else range(0)), (
            path
        )
        assert field.default == default_of(definition, field.wire), path
        if len(present) < len(live):
            assert field.ignorable == definition.get("ignorable", False), path
        self.wire(field.wire, definition["type"], definition.get("fields"), present, path)

    def wire(self, wire: Any, kind: str, fields: Any, live: Versions, path: str) -> None:
        if kind.startswith("[]"):
            assert isinstance(wire, Sized), path
            assert (wire.kind, wire.legacy) == ("array", "i"), path
            self.wire(wire.item, kind[2:], fields, live, path)
        elif kind in LAYOUTS:
            assert isinstance(wire, Fixed), path
            assert wire.layout == LAYOUTS[kind], path
        elif kind in ("string", "bytes", "records"):
            assert isinstance(wire, Sized), path
            assert (wire.kind, wire.legacy) == (kind, "h" if kind == "string" else "i"), path
        else:
            assert isinstance(wire, type), path
            assert wire.__name__ == STRUCT_NAMES.get((self.message, kind), kind), path
            self.struct(wire, kind, fields or self.common[kind], live)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_class_says_what_kafka_says(cls: type[Struct]) -> None:
    definition = KAFKA[cls.__name__]
    versions = versions_of(definition["versions"], range(FOREVER))
    assert definition["key"] == cls.KEY
    assert (versions[0], versions[-1]) == cls.VERSIONS
    flexible = versions_of(definition["flexible"], range(FOREVER))
    assert (flexible[0] if flexible else FOREVER) == cls.FLEXIBLE
    Comparison(cls.__name__).struct(cls, cls.__name__, definition["fields"], versions)


def test_definitions_cover_every_api() -> None:
    assert sorted(KAFKA) == sorted(cls.__name__ for cls in MESSAGES)


def test_only_init_producer_id_has_an_unstable_version() -> None:
    unstable = {facts["key"] for facts in KAFKA.values() if facts.get("latest_version_unstable")}
    assert unstable == {ApiKey.INIT_PRODUCER_ID}
    assert {api.key for api in APIS.values() if api.max_stable_version != api.max_version} == unstable


@pytest.mark.skipif(not JAR.exists(), reason="Apache Kafka is not on this machine")
def test_committed_definitions_are_those_of_the_jar() -> None:
    assert DIGEST.read_text() == to_text(digest(JAR))
