"""`python -m evidence.syscalls`: the steps, and a life with the journal and one without, with what was asked how often."""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import sys
import tempfile
import traceback

from evidence.syscalls import direct
from evidence.syscalls.life import Life
from evidence.syscalls.observed import NotSo, Observed

PROBLEMS_SHOWN = 12
HANG_S = 60


def main() -> int:
    parser = argparse.ArgumentParser(description="A real broker's life, its system calls judged.")
    parser.add_argument("--source", default="", help="where oncelog is imported from")
    parser.add_argument("--quiet", action="store_true", help="only the first problem")
    parser.add_argument("--journal", default="on,off", help="which lives: on, off or both (the default)")
    parser.add_argument("--steps", action="store_true", help="the steps of the log alone, without the life")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        promises = direct.run(pathlib.Path(folder), options.source)
    if not options.quiet:
        for rule, count in sorted(promises.judged.items()):
            print(f"  {count:6d}  {rule}")
    for problem in promises.problems[:PROBLEMS_SHOWN]:
        print(f"  NOT SO: {problem}"[:400])
    print(f"syscalls: {promises.judged.total()} judgements of the log's steps, {len(promises.problems)} not so")
    if promises.problems or options.steps:
        return int(bool(promises.problems))
    return max(_life(options.source, journal, is_quiet=options.quiet) for journal in options.journal.split(","))


def _life(source: str, journal: str, *, is_quiet: bool) -> int:
    with tempfile.TemporaryDirectory() as folder:
        observed = Observed(pathlib.Path(folder), source, stops_early=is_quiet)

        async def live() -> None:
            async with asyncio.timeout(HANG_S):
                await Life(observed, journal=journal).run()

        try:
            asyncio.run(live())
        except NotSo:
            pass  # told below
        except (Exception, TimeoutError) as error:  # noqa: BLE001 - whatever ends it, what was judged is told
            print(f"syscalls: the life ended early: {type(error).__name__}: {error}"[:2000])
            if not is_quiet:
                traceback.print_exc()
                print(observed.last_words())
            shown = observed.problems[:PROBLEMS_SHOWN]
            print("\n".join(shown))
            return 1
        finally:
            observed.end()
        if not is_quiet:
            for rule, count in sorted(observed.judged.items()):
                print(f"  {count:6d}  {rule}")
        for problem in observed.problems[:PROBLEMS_SHOWN]:
            print(f"  NOT SO: {problem}"[:400])
        asked = f"{sum(observed.judged.values())} judgements by {len(observed.judged)} rules"
        print(f"syscalls: journal={journal}: {asked}, {len(observed.problems)} not so")
        return int(bool(observed.problems))


if __name__ == "__main__":
    sys.exit(main())
