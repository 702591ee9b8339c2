"""Every key that is accepted is read by something; one without effect would be a promise that nobody keeps."""

from __future__ import annotations

import ast
import pathlib

import pytest

import oncelog
from oncelog.broker.config.config import ConfigInvalid, config_from, rules
from oncelog.core.groups.config import KAFKA_KEYS, GroupConfig
from oncelog.core.metadata.resource_configs import group_refusal
from oncelog.core.metadata.topic_configs import TOPIC_CONFIGS, settings
from oncelog.core.share.settings import ShareConfig

SOURCE = pathlib.Path(oncelog.__file__).parent
# Read under a name that is put together: bounds of what a group may be configured to.
MEMBERSHIP = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
RECORDS = ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")
BOUNDED = {"consumer": MEMBERSHIP, "share": MEMBERSHIP + RECORDS, "streams": MEMBERSHIP}
BOUNDS = {
    f"group.{kind}.{bound}.{name}" for kind, names in BOUNDED.items() for bound in ("min", "max") for name in names
}
# One node has one replica, which Kafka (min.insync.replicas is at most the replicas there are) finds enough as well.
ALWAYS_ENOUGH = {"min.insync.replicas"}


def read_attributes() -> set[str]:
    """The names of all attributes that some source reads."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
    return found


class _Asked(dict[str, str]):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return False


def read_topic_keys() -> set[str]:
    """The topic's keys that make a partition's settings, whatever codec it has."""
    asked = _Asked()
    for codec in ("producer", "gzip", "lz4", "zstd"):
        settings(asked, {"compression.type": codec}.get)
    return asked.names


def test_every_honoured_key_is_read():
    read = read_attributes()
    as_default = {config.synonym for name, config in TOPIC_CONFIGS.items() if name in read_topic_keys()}
    of_groups = {name.replace("_", ".") for name in (*KAFKA_KEYS, *ShareConfig.__dataclass_fields__)} - BOUNDS
    unread = {key for key in rules() if key.replace(".", "_") not in read} - as_default - of_groups
    assert unread == BOUNDS | ALWAYS_ENOUGH


def test_every_key_of_a_topic_that_is_said_to_be_honoured_is_read():
    honoured = {name for name, config in TOPIC_CONFIGS.items() if config.is_honoured}
    assert honoured - read_topic_keys() == ALWAYS_ENOUGH
    assert read_topic_keys() <= honoured


@pytest.mark.parametrize("key", sorted(BOUNDS))
def test_the_bounds_of_groups_are_read(key):
    kind, bound, name = key.removeprefix("group.").split(".", 2)
    value, beyond = ("7000", "6999") if bound == "min" else ("7000", "7001")
    other = {"min": "max", "max": "min"}[bound]
    broker = {key: value, f"group.{kind}.{other}.{name}": value}
    assert group_refusal(f"{kind}.{name}", "7000", broker.get) is None
    assert group_refusal(f"{kind}.{name}", beyond, broker.get) is not None


def test_group_keys_are_read_by_the_groups():
    """Fields of GroupConfig, each of which its own rules read."""
    read = read_attributes()
    by_name = {f"group_{kind}_{name.replace('.', '_')}" for kind in BOUNDED for name in MEMBERSHIP}
    bounds = {key.replace(".", "_") for key in BOUNDS}
    assert set(GroupConfig.__dataclass_fields__) - read - by_name - bounds == set()


def test_a_key_that_nothing_reads_is_refused():
    with pytest.raises(ConfigInvalid, match="unknown config key"):
        config_from({"console.listen": "127.0.0.1:1"})
