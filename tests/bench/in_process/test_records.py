"""Recorded ratios: which hold for an interpreter, and what counts as slower."""

from __future__ import annotations

import json
import platform
import re

import pytest
from bench.in_process.records import Held, NotRecorded, Recorded, record, recorded, typical

from bench.in_process import records


def test_what_was_recorded_is_found_again(tmp_path):
    path = tmp_path / "ratios.json"
    record({"a": 1.5, "b": 2.0}, path)
    record({"b": 2.25}, path)
    assert recorded(path).of_this_cpu == {"a": 1.5, "b": 2.25}


def test_another_build_is_held_to_the_largest_of_its_version(tmp_path, monkeypatch):
    path = tmp_path / "ratios.json"
    for build, ratios in (("one", {"a": 1.5, "b": 3.0}), ("two", {"a": 2.0, "b": 1.0})):
        monkeypatch.setattr(records, "build", lambda build=build: build)
        record(ratios, path)
    assert recorded(path).of_this_cpu == {"a": 2.0, "b": 1.0}
    monkeypatch.setattr(records, "build", lambda: "three")
    assert recorded(path).of_this_cpu == {"a": 2.0, "b": 3.0}


def test_ratios_to_nothing_comparable_are_none(tmp_path, monkeypatch):
    path = tmp_path / "ratios.json"
    with pytest.raises(NotRecorded, match="no ratios were recorded"):
        recorded(path)
    record({"a": 1.0}, path)
    monkeypatch.setattr(records, "version", lambda: "cpython-9.9")
    with pytest.raises(NotRecorded, match=r"no ratios of cpython-9\.9"):
        recorded(path)
    monkeypatch.setattr(records, "calibration_hash", lambda: "another")
    with pytest.raises(NotRecorded, match="calibration loop was changed"):
        recorded(path)
    record({"b": 1.0}, path)
    assert list(json.loads(path.read_text())["ratios"]) == ["cpython-9.9"]  # what came before is not kept


def test_the_ratios_in_the_tree_are_to_its_calibration_loop():
    kept = json.loads(records.PATH.read_text())
    assert kept["calibration"] == records.calibration_hash(), "python -m bench.in_process --record"


def test_fifteen_percent_more_is_too_slow():
    kept = Recorded({"a": 2.0, "b": 1.0}, {})
    assert kept.slower_percent({"a": 1.0, "b": 1.1}) == {"a": -50.0, "b": pytest.approx(10)}
    assert kept.too_slow({"a": 2.29, "b": 1.16}) == ["b"]
    with pytest.raises(NotRecorded, match="no ratios of c "):
        kept.too_slow({"c": 1.0})


def test_a_processor_has_ratios_of_its_own(tmp_path, monkeypatch):
    path = tmp_path / "ratios.json"
    monkeypatch.setattr(records, "build", lambda: "one")
    for cpu, ratios in (("old", {"a": 1.5}), ("new", {"a": 2.0})):
        monkeypatch.setattr(records, "cpu", lambda cpu=cpu: cpu)
        record(ratios, path)
    assert recorded(path) == Recorded({"a": 2.0}, {"one on old": {"a": 1.5}, "one on new": {"a": 2.0}})
    monkeypatch.setattr(records, "cpu", lambda: "newer")
    assert recorded(path).of_this_cpu is None
    monkeypatch.setattr(records, "build", lambda: "two")
    record({"a": 3.0}, path)
    monkeypatch.setattr(records, "cpu", lambda: "old")
    assert recorded(path) == Recorded(None, {"two on newer": {"a": 3.0}})  # a build is nearer than a processor


OLD = {"a": 1.683, "b": 1.809, "c": 0.324, "d": 0.193, "e": 0.141, "f": 0.333}
SEEN_ELSEWHERE = {
    "a": 2.131,
    "b": 2.254,
    "c": 0.422,
    "d": 0.284,
    "e": 0.209,
    "f": 0.424,
}  # the same code, another processor


def test_on_another_processor_an_operation_is_held_to_what_the_others_say():
    kept = Recorded(None, {"far": dict.fromkeys(OLD, 1.0), "near": OLD})
    held = kept.held(SEEN_ELSEWHERE)
    assert held.too_slow(SEEN_ELSEWHERE) == []
    assert held.kept["f"] == pytest.approx(0.424)  # itself the lower one in the middle of six
    assert re.match(
        r"no record of this processor \(.+\): .* 30 % more than 1\.27 times the nearest record \(near\)", held.said
    )
    for name in OLD:
        slower = SEEN_ELSEWHERE | {name: SEEN_ELSEWHERE[name] * 1.4}
        assert kept.too_slow(slower) == [name]
    assert kept.too_slow(SEEN_ELSEWHERE | {"a": 4.0, "b": 4.0, "c": 0.8}) == ["a", "b", "c"]


def test_what_slows_all_alike_is_taken_for_the_processor():
    kept = Recorded(None, {"near": OLD})
    assert kept.too_slow({name: ratio * 2 for name, ratio in SEEN_ELSEWHERE.items()}) == []


def test_a_few_operations_alone_are_not_judged_on_another_processor():
    kept = Recorded(None, {"near": OLD})
    with pytest.raises(NotRecorded, match="4 operations are too few"):
        kept.held({name: OLD[name] for name in "abcd"})
    with pytest.raises(NotRecorded, match="no ratios of g "):
        kept.held(OLD | {"g": 1.0})
    assert Recorded(OLD, {}).held({"a": 1.0}) == Held(OLD)


CPUINFO = """processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 167
model name	: Intel(R) Xeon(R) Processor
cache size	: 491520 KB

processor	: 1
vendor_id	: another
"""


def test_the_kind_of_a_processor(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(records, "CPU_PATH", path)
    assert records.cpu() == platform.machine()
    path.write_text(CPUINFO)
    assert records.cpu() == "GenuineIntel 6 167 491520 KB"
    path.write_text("processor: 0\nCPU implementer: 0x41\n")
    assert records.cpu() == platform.machine()


def test_of_several_measurements_the_middle_one_is_typical():
    assert typical([{"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 1.5}, {"a": 2.0, "b": 9.0}]) == {"a": 2.0, "b": 1.5}
