"""`make mutants`: draw small mistakes from every package, plant each in a copy of the tree, see which test notices.

What was found is kept (build/mutants/results.jsonl): a run that was stopped goes on where it was, and a mutant is tried
again only when its function has changed, or, with --again-survivors, when it was not noticed. docs/mutants.md says more.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime as dt
import pathlib
import queue
import sys
import threading
from collections.abc import Iterable, Sequence

from evidence.mutants import cover as covers
from evidence.mutants import reasons as reasons_of
from evidence.mutants import report
from evidence.mutants import tree as trees
from evidence.mutants.choosing import Chooser, Chosen
from evidence.mutants.drawing import SAMPLE, all_mutations, drawn, package_of
from evidence.mutants.operators import Mutation
from evidence.mutants.planting import KILLED, Result, result_of
from evidence.mutants.server import Server, serving

BUDGET_SECONDS = 90.0
RESULTS = trees.BUILD / "results.jsonl"


class Results:
    """What is known of each mutant, in a file to which every result is added at once."""

    def __init__(self, path: pathlib.Path = RESULTS) -> None:
        self.path = path
        self.known: dict[tuple[str, str], Result] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                result = Result.from_json(line)
                self.known[result.key] = result

    def add(self, result: Result) -> None:
        self.known[result.key] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(result.to_json() + "\n")

    def of(self, mutations: Iterable[Mutation]) -> list[Result]:
        """Those that are true of the functions as they are."""
        known = ((each, self.known.get((each.file, each.name))) for each in mutations)
        return [result for each, result in known if result is not None and result.digest == each.digest]


class Work:
    """Mutants to be tried; each worker has a copy of the tree to itself."""

    def __init__(self, mutants: Sequence[tuple[Mutation, Chosen]], results: Results) -> None:
        self.count = len(mutants)
        self.results = results
        self.waiting: queue.SimpleQueue[tuple[int, Mutation, Chosen]] = queue.SimpleQueue()
        for number, (mutation, chosen) in enumerate(mutants, 1):
            self.waiting.put((number, mutation, chosen))
        asked = {test.file for _, chosen in mutants for test in (*chosen.first, *chosen.rest)}
        self.test_files = sorted(asked)
        self.lock, self.stop = threading.Lock(), threading.Event()

    def run(self, workers: int) -> None:
        """Raises trees.ToolError where a worker cannot go on. Ctrl-C ends it after the mutants under way."""
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            running = [pool.submit(self._work, f"worker{number}") for number in range(workers)]
            try:
                for each in concurrent.futures.as_completed(running):
                    each.result()
            except KeyboardInterrupt:
                print("mutants: stopping; the same command goes on from here", flush=True)
            finally:
                self.stop.set()

    def _work(self, name: str) -> None:
        with trees.copy_of_tree(name) as tree:
            check_the_copy(tree)
            with serving(tree, self.test_files, ("-m", "not compat")) as server:
                self._empty_the_queue(tree, server)

    def _empty_the_queue(self, tree: pathlib.Path, server: Server) -> None:
        while not self.stop.is_set():
            try:
                number, mutation, chosen = self.waiting.get_nowait()
            except queue.Empty:
                return
            self._try(tree, server, number, mutation, chosen)

    def _try(self, tree: pathlib.Path, server: Server, number: int, mutation: Mutation, chosen: Chosen) -> None:
        result = result_of(tree, mutation, chosen, server)
        with self.lock:
            self.results.add(result)
            what = f"{result.file.removeprefix('src/oncelog/')}:{result.line} {result.operator}"
            said = result.killed_by or result.state.upper()
            print(f"{number}/{self.count} {result.seconds:4.0f} s  {what}: {said}", flush=True)


def check_the_copy(tree: pathlib.Path) -> None:
    """A process that a test starts must import the copy, whatever is installed."""
    ended = trees.run(
        tree, ("-c", "import oncelog, oncelog.wire.varint as v; print(oncelog.__file__, v.__file__)"), 120
    )
    for file in ended.output.split():
        if not file.startswith(str(tree)) or not file.endswith(".py"):
            raise trees.ToolError(f"processes import {file}, not the copy in {tree}")


def make_map(cover: covers.CoverMap, with_jvm: bool) -> None:
    marks = (covers.WITHOUT_JVM, covers.WITH_JVM) if with_jvm else (covers.WITHOUT_JVM,)
    for mark in marks:
        cover.prune(covers.covering_files())
        if cover.missing(covers.covering_files(marks=mark), mark):
            with trees.copy_of_tree("map") as tree:
                check_the_copy(tree)
                covers.complete(cover, tree, mark, lambda said: print(said, flush=True))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    cover = covers.CoverMap()
    if options.map:
        cover.forget()
    if not options.report:
        make_map(cover, options.jvm)
    tests, seconds, failed = cover.totals()
    print(
        f"mutants: the map has {tests} tests of {seconds:.0f} s; {len(failed)} fail or are skipped there and decide nothing",
        flush=True,
    )
    sample = drawn(all_mutations(trees.ROOT), options.seed, options.count)
    if options.only:
        sample = [
            each for each in sample if options.only in (package_of(each.file), each.file) or options.only in each.name
        ]
    results, reasons = Results(), reasons_of.known()
    if not options.report:
        done = {each.key for each in results.of(sample) if not (options.again_survivors and each.state != KILLED)}
        if options.again_survivors:
            done |= set(reasons)
        left = [each for each in sample if (each.file, each.name) not in done]
        chooser = Chooser(cover)
        try:
            Work([(each, chooser.choose(each, options.budget)) for each in left], results).run(options.workers)
        except trees.ToolError as error:
            print(f"mutants: {error}")
            return 2
    return _say(results.of(sample), len(sample), options)


def _say(found: Sequence[Result], wanted: int, options: argparse.Namespace) -> int:
    reasons = reasons_of.known()
    report.write_json(options.json, found, wanted, reasons, options.seed)
    if options.page:
        day = dt.datetime.now(dt.UTC).date().isoformat()
        path = trees.ROOT / "docs" / "mutants.md"
        path.write_text(report.page(path.read_text(), found, wanted, reasons, options.seed, day))
    print(report.survivors(found, reasons))
    print(report.table(report.figures(found, reasons)))
    print(report.summary(found, wanted, reasons, options.seed))
    return 0 if report.is_good(found, wanted, reasons) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make mutants", description="Draw small mistakes, and see whether the suite notices."
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other mistakes")
    parser.add_argument("--count", type=int, default=SAMPLE, help="how many, over all packages")
    parser.add_argument("--only", help="of those drawn: a package, a file, or a part of a mutant's name")
    parser.add_argument(
        "--again-survivors", action="store_true", help="try again what was not noticed and has no reason"
    )
    parser.add_argument("--map", action="store_true", help="make the map of lines and tests anew")
    parser.add_argument(
        "--jvm", action="store_true", help="tests that start a JVM, too, for lines that only they cover"
    )
    parser.add_argument(
        "--budget", type=float, default=BUDGET_SECONDS, help="seconds of tests for a mutant that none notices"
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="run nothing; say what is known")
    parser.add_argument("--page", action="store_true", help="write the figures into docs/mutants.md")
    parser.add_argument("--json", type=pathlib.Path, default=trees.BUILD / "drawn.json")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
