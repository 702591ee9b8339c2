"""Certificates exchanged under load, a few times; `make reload` does it a hundred times."""

from __future__ import annotations

import asyncio

from evidence.attacks import reloads

COUNT = 3


def test_nobody_notices_and_no_old_ticket_holds(tmp_path):
    found = asyncio.run(reloads.run(COUNT, tmp_path))
    assert found.faults() == []
    assert found.reloads == found.tickets == COUNT
    assert found.requests > COUNT
    assert found.connections > COUNT
