"""Lines in the log: a bound per minute, and what was left out is told."""

from __future__ import annotations

import struct

from evidence.world.broker import Client, broker_and_client, run

from oncelog.broker.network.log_budget import LogBudget
from oncelog.errors import ErrorCode
from tests.broker.metrics.limits_world import is_closed, shows

E = ErrorCode


@shows("oncelog.log.max.lines.per.minute")
def test_lines_in_the_log_are_bounded(tmp_path, caplog):
    async def work():
        async with broker_and_client(tmp_path, oncelog_log_max_lines_per_minute=2) as (broker, _):
            for _ in range(5):
                other = await Client.connect(broker)
                other.send_bytes(struct.pack(">i", -5))
                assert await is_closed(other)
            assert broker.metrics.limit_hits("oncelog.log.max.lines.per.minute") == 3
            assert sum("closing connection" in line for line in caplog.messages) == 2

    run(work())


def test_what_was_left_out_of_the_log_is_told():
    budget = LogBudget(lambda: 2)
    assert [budget.take(now_s) for now_s in (0.0, 1.0, 2.0, 3.0, 60.0, 61.0, 61.0)] == [0, 0, None, None, 2, 0, None]
