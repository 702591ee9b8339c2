"""Recorded ratios: which hold for an interpreter, and what counts as slower."""

from __future__ import annotations

import json

import pytest
from bench.in_process.records import NotRecorded, record, recorded, slower_percent, too_slow, typical

from bench.in_process import records


def test_what_was_recorded_is_found_again(tmp_path):
    path = tmp_path / "ratios.json"
    record({"a": 1.5, "b": 2.0}, path)
    record({"b": 2.25}, path)
    assert recorded(path) == {"a": 1.5, "b": 2.25}


def test_another_build_is_held_to_the_largest_of_its_version(tmp_path, monkeypatch):
    path = tmp_path / "ratios.json"
    for build, ratios in (("one", {"a": 1.5, "b": 3.0}), ("two", {"a": 2.0, "b": 1.0})):
        monkeypatch.setattr(records, "build", lambda build=build: build)
        record(ratios, path)
    assert recorded(path) == {"a": 2.0, "b": 1.0}
    monkeypatch.setattr(records, "build", lambda: "three")
    assert recorded(path) == {"a": 2.0, "b": 3.0}


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
    kept = {"a": 2.0, "b": 1.0}
    assert slower_percent({"a": 1.0, "b": 1.1}, kept) == {"a": -50.0, "b": pytest.approx(10)}
    assert too_slow({"a": 2.29, "b": 1.16}, kept) == ["b"]
    with pytest.raises(NotRecorded, match="no ratios of c "):
        too_slow({"c": 1.0}, kept)


def test_of_several_measurements_the_middle_one_is_typical():
    assert typical([{"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 1.5}, {"a": 2.0, "b": 9.0}]) == {"a": 2.0, "b": 1.5}
