"""Every test here has a small journal, where its broker has one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evidence.crash.small_journal import small_journal


@pytest.fixture(autouse=True, scope="session")
def journal_is_small() -> Iterator[None]:
    """For modules' fixtures as well."""
    with small_journal():
        yield
