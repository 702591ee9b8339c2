"""What was appended, as the checkers see it: by the simulation, and by nobody else in the process."""

from __future__ import annotations

import logging
from threading import Thread

from evidence.simulator.archive import Archive, archiving
from evidence.simulator.cluster import Cluster, TraceHandler
from evidence.simulator.faults import FaultOptions
from evidence.world.loop import SimLoop, run_simulated
from evidence.world.partition_log import PARTITION, World


def test_appends_are_noted_before_a_crash_takes_them_back() -> None:
    archive, world = Archive(), World()
    with archiving(archive):
        world.append(3, 40, -1)
        world.append(2, 40, -1)
    world.append(1, 40, -1)
    assert [each.last_offset for each in archive.batches(PARTITION, 100)] == [2, 4]
    assert [each.last_offset for each in archive.batches(PARTITION, 3)] == [2], "what is above the end was lost"


def test_a_log_of_another_thread_is_none_of_the_simulation() -> None:
    """A real broker of another test, whose left-open transaction timed out meanwhile, was judged with the simulated one."""
    archive, world = Archive(), World()
    thread = Thread(target=world.append, args=(3, 40, -1))
    with archiving(archive):
        thread.start()
        thread.join()
    assert world.log.log_end_offset == 3
    assert archive.batches(PARTITION, 100) == []


def test_a_warning_of_another_thread_is_not_in_the_trace() -> None:
    async def main(loop: SimLoop) -> list[str]:
        cluster = Cluster(loop, "warnings", FaultOptions())
        handler = TraceHandler(cluster)
        logger = logging.getLogger("oncelog.test")
        logger.addHandler(handler)
        try:
            thread = Thread(target=logger.warning, args=("of a broker beside it",))
            thread.start()
            thread.join()
            logger.warning("of the simulated one")
        finally:
            logger.removeHandler(handler)
        return [line for line in cluster.trace if "of " in line]

    [line] = run_simulated(1, main)
    assert "of the simulated one" in line
