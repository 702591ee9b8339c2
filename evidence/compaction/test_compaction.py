"""The compaction drill with a few cleanings and kills, and that it can find something."""

from __future__ import annotations

import asyncio
import random

from evidence.compaction.drill import Drill
from evidence.compaction.writer import Writer


def test_views_survive_cleanings_and_kills(tmp_path):
    drill = Drill(tmp_path, cleanings=6, kills=2, seed=4, say=lambda line: None)
    outcome = asyncio.run(asyncio.wait_for(drill.run(), 800))
    assert outcome.problems == []
    assert outcome.cleanings >= 6
    assert outcome.kills >= 2
    assert outcome.committed > 0
    assert outcome.segments > 0


def test_a_writer_finds_what_was_lost_or_came_back():
    writer = Writer(1, is_new=True, is_transactional=True, random=random.Random(1))
    writer.table = {b"1/0": b"a", b"1/1": None}
    assert writer.settle({b"1/0": b"a", b"2/0": b"another's"}) is None
    assert writer.settle({}) is not None
    assert writer.settle({b"1/0": b"a", b"1/1": b"deleted"}) is not None
    writer.in_doubt = {b"1/0": b"b", b"1/1": b"c"}
    assert writer.settle({b"1/0": b"b"}) is not None, "a half of what was in doubt"
    assert writer.settle({b"1/0": b"b", b"1/1": b"c"}) is None
    assert writer.table == {b"1/0": b"b", b"1/1": b"c"}
    assert writer.in_doubt is None
