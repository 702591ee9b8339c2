"""The examples run, and README's code is the example's code."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import pathlib
import re
import sqlite3
import subprocess
import sys
from types import ModuleType

import pytest
from evidence.world.committed import committed_values

from oncelog import sync
from oncelog.testing import TestBroker

ROOT = pathlib.Path(__file__).parent.parent


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_embedded_broker_shows_only_what_was_committed() -> None:
    assert asyncio.run(example("embedded_broker").main()) == [b"3 apples"]


def test_a_long_transaction_delays_nobody_in_transaction_order() -> None:
    meanwhile, afterwards = asyncio.run(example("transaction_order").main())
    assert meanwhile == [b"sale 1", b"sale 2"]
    assert afterwards == [b"month end: interest", b"month end: fees"]


def test_a_secured_broker_lets_each_do_what_each_may() -> None:
    assert example("secured_broker").main() == ([b"3 apples"], "ClusterAuthorization")


def test_readme_shows_the_example_that_runs() -> None:
    readme = (ROOT / "README.md").read_text()
    codes = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    sources = [(ROOT / "examples" / f"{name}.py").read_text() for name in ("embedded_broker", "priced_orders")]
    assert len(codes) == len(sources)
    for code, source in zip(codes, sources, strict=True):
        imports, _, body = code.partition("\n\n\n")
        assert {*imports.splitlines()} <= {*source.splitlines()}
        assert body.strip() in source


def test_orders_are_priced_once_and_what_is_no_order_is_a_dead_letter() -> None:
    with TestBroker() as broker:
        with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send_many("orders", [(b"k", b'{"count": 3}'), (b"k", b"three"), (b"k", b'{"count": 5}')])
        for _ in range(2):
            metrics = asyncio.run(example("priced_orders").main(broker.bootstrap_servers, until_end=True))
        assert metrics.consumed_record_count == 0, "the second run finds nothing to do"
        priced = committed_values(broker.bootstrap_servers, "priced")
        assert priced == [b'{"count": 3, "price": 6}', b'{"count": 5, "price": 10}']
        assert committed_values(broker.bootstrap_servers, "orders.dead") == [b"three"]


def test_rows_and_events_stay_together_over_a_crash(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies between the database's commit and the topic's completion; its successor completes."""
    module, file = example("two_phase_commit"), str(tmp_path / "orders.db")

    class Died(BaseException): ...

    def die(*_: object) -> None:
        raise Died

    with TestBroker() as broker:
        assert module.run(broker.bootstrap_servers, file, ["apples"]) == 1
        with monkeypatch.context() as patch:
            patch.setattr(sync.Producer, "complete_transaction", die)
            with pytest.raises(Died):
                module.run(broker.bootstrap_servers, file, ["pears"])
        assert module.run(broker.bootstrap_servers, file, ["plums"]) == 3
        events = [value.decode() for value in committed_values(broker.bootstrap_servers, "orders")]
    with sqlite3.connect(file) as database:
        rows = [what for (what,) in database.execute("SELECT what FROM orders ORDER BY id")]
    assert events == rows == ["apples", "pears", "plums"]


def test_one_trace_goes_through_both_services(oncelog_broker: TestBroker, oncelog_topic: str) -> None:
    in_memory = pytest.importorskip(
        "opentelemetry.sdk.trace.export.in_memory_span_exporter", reason="needs opentelemetry-sdk"
    )
    exporter = in_memory.InMemorySpanExporter()
    example("traced_orders").run(oncelog_broker.bootstrap_servers, exporter, oncelog_topic, oncelog_topic)
    by_name = {span.name: span for span in exporter.get_finished_spans()}
    names = ["POST /orders", "transaction", f"send {oncelog_topic}", f"process {oncelog_topic}", "print the label"]
    for parent, child in itertools.pairwise(names):
        assert by_name[child].parent.span_id == by_name[parent].context.span_id, child


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_without_its_arguments_says_which(path: pathlib.Path) -> None:
    if "sys.argv" not in path.read_text():
        pytest.skip("it takes none")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.stderr.startswith(f"usage: python examples/{path.name} "), done.stderr
