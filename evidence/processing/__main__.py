"""`python -m evidence.processing --kills 40`: on oncelog and on Apache Kafka; one line at the end, exit 1 unless all is exact."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

from evidence.compat.servers import NOT_ALL_RUN
from evidence.differential.brokers import ApacheKafkaNode, kafka_launcher
from evidence.processing.member import PROTOCOLS
from evidence.processing.run import PAUSES_S, Figures, Round
from evidence.world.ports import free_port

FOLDER = pathlib.Path("build/processing")
ONCELOG, KAFKA = "oncelog", "Apache Kafka"
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
STOP_S = 60


@contextlib.contextmanager
def oncelog_serving(folder: pathlib.Path) -> Iterator[str]:
    """A process of its own on an empty directory."""
    port = free_port()
    settings = [text for key, value in CONFIG.items() for text in ("-c", f"{key}={value}")]
    where = ["--data-dir", str(folder / "data"), "--listen", f"127.0.0.1:{port}"]
    with (folder / "oncelog.log").open("w") as log:
        broker = subprocess.Popen(
            [sys.executable, "-m", "oncelog", "serve", *where, *settings], stdout=subprocess.PIPE, stderr=log
        )
        try:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith(b"ready"), (folder / "oncelog.log").read_text()
            yield f"127.0.0.1:{port}"
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(STOP_S)
            if broker.stdout is not None:
                broker.stdout.close()


@contextlib.contextmanager
def kafka_serving(folder: pathlib.Path, launcher: str) -> Iterator[str]:
    """Apache Kafka as it is released."""
    config = CONFIG | {"unstable.api.versions.enable": "false", "transaction.two.phase.commit.enable": "false"}
    with ApacheKafkaNode(folder / "kafka", launcher, config) as node:
        yield f"127.0.0.1:{node.address[1]}"


def rounds(folder: pathlib.Path, bootstrap: str, options: argparse.Namespace, chance: random.Random) -> list[Figures]:
    """One for each protocol; the kills are shared among them."""
    found = []
    for index, protocol in enumerate(options.protocols):
        kills = (options.kills + index) // len(options.protocols)
        found.append(Round(folder, bootstrap, protocol, kills, chance, options.longest_pause).everything())
        print(f"  {found[-1].text()}", file=sys.stderr, flush=True)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="evidence.processing", description=__doc__)
    parser.add_argument("--kills", type=int, default=40, help="of members, with each broker")
    parser.add_argument("--only", choices=(ONCELOG, KAFKA), help="one of the brokers")
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=list(PROTOCOLS))
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the moments and victims")
    parser.add_argument("--longest-pause", type=float, default=PAUSES_S[-1], help="seconds")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    options = parser.parse_args(arguments)
    folder, chance, verdicts, is_left_out = options.folder.absolute(), random.Random(options.seed), [], False
    is_good = True
    for broker in (ONCELOG, KAFKA):
        if options.only not in (None, broker):
            continue
        launcher = kafka_launcher() if broker == KAFKA else ""
        if launcher is None:
            verdicts.append(f"{broker}: NOT RUN, it needs Java 17 and mvn")
            is_left_out = True
            continue
        shutil.rmtree(folder / broker, ignore_errors=True)
        (folder / broker).mkdir(parents=True)
        serving = kafka_serving(folder / broker, launcher) if launcher else oncelog_serving(folder / broker)
        with serving as bootstrap:
            print(f"{broker}, seed {options.seed}:", file=sys.stderr, flush=True)
            found = rounds(folder / broker, bootstrap, options, chance)
        is_exact = not any(each.problems for each in found)
        is_good = is_good and is_exact
        verdicts.append(
            f"{broker}: {sum(each.records for each in found):,} records, {sum(each.kills for each in found)} kills, "
            f"{sum(each.rebalances for each in found)} rebalances, {'exact' if is_exact else 'FAILED'}"
        )
    print(f"process: {'; '.join(verdicts)}; seed {options.seed}")
    return 1 if not is_good else NOT_ALL_RUN if is_left_out else 0


if __name__ == "__main__":
    sys.exit(main())
