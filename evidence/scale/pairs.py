"""`python -m evidence.scale.pairs`: two producers of one lane begin at the same moment, again and again; is each answered?

Both begin a transaction by their first Produce (v12), and both questions go to one lane of the broker's gate, which has
one request in flight: the second has to be asked by whoever ends the first. In between a single producer begins alone,
for comparison. Exit 1 where an answer is missing, or the slowest took more than three times a single producer's slowest.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import shutil
import sys
import time
from dataclasses import dataclass, field
from statistics import median

import oncelog.broker.coordinators.transaction_gate as gate
from evidence.crash.broker_process import BrokerProcess
from evidence.scale.clients import connect, create_topic, init_all, produce_code, produce_request
from evidence.scale.figures import serving
from evidence.world.broker import Client
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ErrorCode

FOLDER = pathlib.Path("build/scale-pairs")
BROKER_FLAG = "--broker-with-lanes"  # for the child: what follows is the number of lanes and oncelog's arguments
ANSWER_TIMEOUT_S = 10.0
TIMES_SLOWER_MAX = 3.0
WARM_UP_COUNT = 20


@dataclass
class Measured:
    """Seconds until each answer, and how many never came."""

    paired_s: list[float] = field(default_factory=list)
    single_s: list[float] = field(default_factory=list)
    unanswered: int = 0

    @property
    def is_good(self) -> bool:
        return not self.unanswered and max(self.paired_s) <= TIMES_SLOWER_MAX * max(self.single_s)

    def summary(self, pair_count: int, lane_count: int) -> str:
        answered = f"slowest {max(self.paired_s) * 1000:.1f} ms, p50 {median(self.paired_s) * 1000:.1f} ms"
        return (
            f"pairs: {self.unanswered} of {pair_count} unanswered ({lane_count} lanes); {answered}; "
            f"a single producer's slowest {max(self.single_s) * 1000:.1f} ms, p50 {median(self.single_s) * 1000:.1f} ms"
            f"{'' if self.is_good else ': FAILED'}"
        )


def names_of_one_lane(pair_count: int, lane_count: int) -> list[str]:
    """Two transactional ids for each pair that share a lane."""
    waiting: dict[int, str] = {}
    names: list[str] = []
    index = 0
    while len(names) < 2 * pair_count:
        name = f"pair-{index}"
        index += 1
        first = waiting.pop(coordinator_partition(name, lane_count), None)
        if first is None:
            waiting[coordinator_partition(name, lane_count)] = name
        else:
            names += [first, name]
    return names


async def begin(client: Client, name: str, identity: tuple[int, int]) -> float | None:
    """Begin a transaction with its first record; seconds until the answer, None where it does not come."""
    begun = time.perf_counter()
    client.send(produce_request("t", 0, b"value", producer=identity, name=name), 12)
    try:
        _, reply = await asyncio.wait_for(client.receive(), ANSWER_TIMEOUT_S)
    except TimeoutError:
        return None
    assert ErrorCode(produce_code(reply)) is ErrorCode.NONE
    return time.perf_counter() - begun


async def measure(folder: pathlib.Path, pair_count: int, lane_count: int) -> Measured:
    """Begin `pair_count` pairs, each of them at once, and as many single transactions between them."""
    broker = BrokerProcess(folder, ("evidence.scale.pairs", BROKER_FLAG, str(lane_count)))
    names = names_of_one_lane(pair_count, lane_count)
    singles = [f"single-{index}" for index in range(pair_count)]
    measured = Measured()
    async with serving(broker) as (_, client):
        await create_topic(client, "t", 1)
        warm = [f"warm-{index}" for index in range(WARM_UP_COUNT)]
        identities = await init_all(client, [*warm, *names, *singles])
        for name in warm:
            assert await begin(client, name, identities[name]) is not None
        both = [await connect(broker.port), await connect(broker.port)]
        for first, second, single in zip(names[::2], names[1::2], singles, strict=True):
            answers = await asyncio.gather(
                *(begin(each, name, identities[name]) for each, name in zip(both, (first, second), strict=True))
            )
            measured.unanswered += any(each is None for each in answers)
            measured.paired_s += [each for each in answers if each is not None]
            alone_s = await begin(client, single, identities[single])
            assert alone_s is not None, "a single producer's Produce is answered"
            measured.single_s.append(alone_s)
        for each in both:
            each.close()
    return measured


def serve_with_lanes(arguments: list[str]) -> None:
    """The broker child."""
    from oncelog.cli.main import main as oncelog

    gate.LANE_COUNT = int(arguments[0])
    sys.argv = ["oncelog", *arguments[1:]]
    oncelog()


def main() -> int:
    if sys.argv[1:2] == [BROKER_FLAG]:
        serve_with_lanes(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(prog="evidence.scale.pairs", description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--lanes", type=int, default=gate.LANE_COUNT)
    options = parser.parse_args()
    folder = FOLDER.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    measured = asyncio.run(measure(folder, options.pairs, options.lanes))
    print(measured.summary(options.pairs, options.lanes))
    return 0 if measured.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
