"""Stands in for the `cython` module where Cython is not installed: this is plain Python, and says so."""

from __future__ import annotations

compiled = False
