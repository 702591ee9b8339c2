"""The same attacks on Apache Kafka itself: `recorded.json` has how each ends there; `python -m evidence.attacks.record` asks.

`--check` compares with the record and writes nothing. Exits 77 where Apache Kafka cannot be started.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from evidence.attacks.attack import ATTACKS
from evidence.attacks.kinds import KINDS
from evidence.attacks.target import Files, apache_kafka
from evidence.compat.servers import NOT_ALL_RUN
from evidence.differential.brokers import kafka_launcher

FILE = pathlib.Path(__file__).with_name("recorded.json")
ATTACK_TIMEOUT_S = 60


def recorded() -> dict[str, str]:
    """By the attacks' names."""
    held: dict[str, str] = json.loads(FILE.read_text())
    return held


async def asked(launcher: str, only: Sequence[str]) -> dict[str, str]:
    """How each attack ends there; `only`: names, all where empty."""
    ends: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="oncelog-attacks-") as directory:
        async with apache_kafka(Files(pathlib.Path(directory)), launcher) as target:
            for attack in ATTACKS.values():
                if attack.not_asked or (only and attack.name not in only):
                    continue
                target.begin()
                try:
                    async with asyncio.timeout(ATTACK_TIMEOUT_S):
                        ends[attack.name] = await attack.do(target)
                except Exception as error:  # noqa: BLE001 - whatever happens there is what happens there
                    ends[attack.name] = f"{type(error).__name__}: {error}"
                finally:
                    await target.end()
                print(f"attacks: {attack.name}: {ends[attack.name]}", file=sys.stderr, flush=True)
    return ends


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.attacks.record")
    parser.add_argument("--check", action="store_true", help="compare with the record")
    parser.add_argument("--only", default="", help="names of attacks, by comma")
    options = parser.parse_args(arguments)
    only = list(filter(None, options.only.split(",")))
    launcher = kafka_launcher()
    if launcher is None:
        print("attacks: no Apache Kafka here (needs Java 17 and mvn): its answers are those recorded")
        return NOT_ALL_RUN
    ends = asyncio.run(asked(launcher, only))
    if not options.check:
        held = recorded() if FILE.exists() else {}
        whole = {name: ends.get(name, held.get(name)) for name, each in ATTACKS.items() if not each.not_asked}
        FILE.write_text(json.dumps(whole, indent=1) + "\n")
        print(f"attacks: {len(ends)} of Apache Kafka recorded, of {len(KINDS)} kinds")
        return 0
    held = recorded()
    others = [name for name, end in ends.items() if held.get(name) != end]
    for name in others:
        print(f"attacks: {name}: recorded {held.get(name)!r}, now {ends[name]!r}")
    print(f"attacks: {len(ends) - len(others)} of {len(ends)} end in Apache Kafka as recorded")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
