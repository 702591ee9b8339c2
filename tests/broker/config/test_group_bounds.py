"""A broker does not start with keys of groups that break each other's bounds."""

import pytest

from oncelog.broker.config.config import ConfigInvalid, config_from
from oncelog.broker.config.group_bounds import BOUNDED, KINDS, ORDERED


def bounds(key):
    _, kind, own = key.split(".", 2)
    return f"group.{kind}.min.{own}", f"group.{kind}.max.{own}"


@pytest.mark.parametrize("key", BOUNDED)
def test_a_value_outside_its_bounds_is_refused_by_name(key):
    least, most = bounds(key)
    config, _ = config_from({})
    largest = getattr(config, most.replace(".", "_"))
    too_large = {most: "999"} if "assignment" in key else {key: str(largest + 1)}
    with pytest.raises(ConfigInvalid, match=rf"{key}=\d+ is larger than {most}=\d+"):
        config_from(too_large)
    smallest = getattr(config, least.replace(".", "_"))
    if "assignment" in key:
        too_small, wrong = {least: "1001"}, rf"{least}=1001 is larger than {key}=1000"
    elif smallest > 2:
        too_small, wrong = {key: str(smallest - 1)}, rf"{least}=\d+ is larger than {key}=\d+|{key}=\d+: expected \d+ to"
    else:
        too_small, wrong = {key: "2", least: "3"}, rf"{least}=3 is larger than {key}=2"
    with pytest.raises(ConfigInvalid, match=wrong):
        config_from(too_small)
    config_from({key: str(largest)})


@pytest.mark.parametrize("kind", KINDS)
def test_a_heartbeat_comes_before_the_session_ends(kind):
    keys = {
        f"group.{kind}.min.session.timeout.ms": "5000",
        f"group.{kind}.session.timeout.ms": "5000",
    }
    with pytest.raises(
        ConfigInvalid,
        match=rf"group.{kind}.heartbeat.interval.ms=5000 is not smaller than group.{kind}.session.timeout.ms=5000",
    ):
        config_from(keys)
    config_from({**keys, f"group.{kind}.session.timeout.ms": "5001"})


@pytest.mark.parametrize(("smaller", "larger"), ORDERED)
def test_ordered_keys(smaller, larger):
    with pytest.raises(ConfigInvalid, match=f"{smaller}=.* is larger than {larger}=1"):
        config_from({smaller: "2", larger: "1"})


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(ConfigInvalid, match=r"session.timeout.ms=60001 .*; .*locks=5000 is larger"):
        config_from({"group.share.session.timeout.ms": "60001", "group.share.partition.max.record.locks": "5000"})
