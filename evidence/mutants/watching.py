"""The pytest plugin of all runs: it records which test runs which line, or runs chosen tests in a chosen order.

* Recording (ONCELOG_MUTANTS_RECORD: coverage's data file): one context for each test; how long each took, and whether
  it passed, goes to that file's name with `.json`. A test that computes for longer than a mutant may cost is ended: it
  decides nothing.
* Serving (ONCELOG_MUTANTS_REQUESTS): see serving.py.
* Choosing (ONCELOG_MUTANTS_CHOSEN: a JSON list of node ids): only these, in this order; the first that fails ends it.

It reads standard input until that ends: when the tool dies, however, its tests do not outlive it.
"""

from __future__ import annotations

import json
import os
import pathlib
import resource
import signal
import threading
from collections.abc import Generator
from types import FrameType

import pytest

RECORD = os.environ.get("ONCELOG_MUTANTS_RECORD")
CHOSEN = os.environ.get("ONCELOG_MUTANTS_CHOSEN")
REQUESTS = "ONCELOG_MUTANTS_REQUESTS"
TEST = "ONCELOG_MUTANTS_TEST"
# Interrupts come a thousand times a second here, some into coverage's own lock, where a handler hangs for ever.
INTERRUPTED = ("tests/client/test_sync.py::test_interrupts_tear_no_record_apart",)
CPU_SECONDS_MAX = 12  # of a test while lines are recorded, which takes about three times what it takes without


def _die_with_the_tool(standard_input: int) -> None:
    while os.read(standard_input, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


if os.environ.get("ONCELOG_MUTANTS_TIED"):  # a copy of it: pytest gives its tests an empty one
    threading.Thread(target=_die_with_the_tool, args=(os.dup(0),), daemon=True).start()


if "ONCELOG_MUTANTS_MEMORY" in os.environ:
    resource.setrlimit(resource.RLIMIT_DATA, (int(os.environ["ONCELOG_MUTANTS_MEMORY"]),) * 2)


def _too_long(signal_number: int, frame: FrameType | None) -> None:
    if frame is not None and "coverage" in pathlib.Path(frame.f_code.co_filename).parts:
        return  # it may hold the lock of what is recorded, which nobody would let go of; a second later it rings again
    pytest.fail(f"computes for more than {CPU_SECONDS_MAX} s")


class Recorder:
    """What runs while pytest collects counts for the context `import`, what runs between tests for `between`."""

    def __init__(self, data_file: str) -> None:
        import coverage

        source = os.path.join(os.environ["ONCELOG_MUTANTS_TREE"], "src", "oncelog")
        self.tests: dict[str, dict[str, object]] = {}
        self.data_file = data_file
        self.measure = coverage.Coverage(data_file=data_file, source=[source], config_file=False, messages=False)
        self.measure.start()
        self.measure.switch_context("import")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if item.nodeid.startswith(INTERRUPTED)]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tests[nodeid] = {"seconds": 0.0, "passed": True}
        self.measure.switch_context(nodeid)
        os.environ[TEST] = nodeid

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX, 1)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests[report.nodeid]
        test["seconds"] = float(str(test["seconds"])) + report.duration
        if not report.passed:
            test["passed"] = False

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        os.environ.pop(TEST, None)
        self.measure.switch_context("between")

    def pytest_unconfigure(self) -> None:
        self.measure.stop()
        self.measure.save()
        pathlib.Path(self.data_file + ".json").write_text(json.dumps(self.tests))


class Chooser:
    """Runs the chosen tests, and these only."""

    def __init__(self, chosen: list[str]) -> None:
        self.place = {nodeid: place for place, nodeid in enumerate(chosen)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if item.nodeid not in self.place]
        items[:] = sorted((item for item in items if item.nodeid in self.place), key=lambda i: self.place[i.nodeid])
        config.hook.pytest_deselected(items=left_out)


def _plugin() -> object | None:
    if REQUESTS in os.environ:
        from evidence.mutants.serving import Server

        return Server()
    if RECORD:
        return Recorder(RECORD)
    if CHOSEN:
        return Chooser(json.loads(pathlib.Path(CHOSEN).read_text()))
    return None


PLUGIN = _plugin()


def pytest_configure(config: pytest.Config) -> None:
    if PLUGIN is not None:
        config.pluginmanager.register(PLUGIN, "mutants-plugin")
