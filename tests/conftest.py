"""Fixtures for all tests: the plugin that users get, loaded from the source tree."""

from __future__ import annotations

import importlib.metadata

installed = any(point.name == "oncelog" for point in importlib.metadata.entry_points(group="pytest11"))
pytest_plugins = [] if installed else ["oncelog.testing.plugin"]
