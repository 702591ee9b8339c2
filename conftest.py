"""Fixtures for all tests: the plugin that users get, loaded from the source tree."""

from __future__ import annotations

import gc
import importlib.metadata
import os

import pytest
from hypothesis import HealthCheck, settings

installed = any(point.name == "oncelog" for point in importlib.metadata.entry_points(group="pytest11"))
pytest_plugins = [] if installed else ["oncelog.testing.plugin"]

# A busy machine must not decide a test: neither by how long an example took, nor by how long it took to find one.
settings.register_profile("oncelog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("oncelog")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long forms of tests (ONCELOG_LONG) may take longer than what is a hang in the short ones."""
    if os.environ.get("ONCELOG_LONG", "0") != "0":
        for item in items:
            item.add_marker(pytest.mark.timeout(7200))


def pytest_collection_finish() -> None:
    """What collecting made (thousands of tests, every module) lives to the end: no collection of garbage looks at it again."""
    gc.collect()
    gc.freeze()
