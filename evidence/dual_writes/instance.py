"""An instance in a process of its own: forked, told what to do over a pipe, killed or stopped at a named point.

Points are `before STEP` and `after STEP`; the steps are the recipe's eight and recovery's four. The eighth, `complete`, runs
behind the block's end: `after begin_completing` is when it was begun, `while completing` some microseconds later. Nothing in
the product knows of them: the database and the producer are wrapped.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from evidence.world.stores import Store
from oncelog import sync
from oncelog.errors import OncelogError
from oncelog.recipes.sync import DualWriter

STEPS = ("begin_database", "begin_topic", "send", "rows", "store", "prepare", "commit", "complete")
RECOVERY_STEPS = ("take_over", "keep", "read", "complete")
TOPIC = "crash"


class Knife:
    """Acts once, at the armed point. `inside commit` is a thread that strikes some microseconds after it began."""

    def __init__(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.how = how
        self.point = ""
        self.delay_us = 0
        self.loses = ""  # "request" or "answer" of the commit
        self._is_in_producer = False

    def at(self, point: str) -> None:
        if point == self.point:
            self.point = ""
            os.kill(os.getpid(), self.how)

    def around(self, step: str, work: Callable[[], Any]) -> Any:
        self.at(f"before {step}")
        result = work()
        self.at(f"after {step}")
        return result

    def commit(self, work: Callable[[], Any]) -> Any:
        self.at("before commit")
        loses, self.loses = self.loses, ""
        if loses == "request":
            raise ConnectionError("the request is lost")
        striker = self.strike_later() if self.point == "inside commit" else None
        result = work()
        if striker is not None:
            striker.join()  # it strikes, if later than the commit's end
        if loses == "answer":
            raise ConnectionError("the answer is lost")
        self.at("after commit")
        return result

    def _strike(self) -> None:
        ends = time.perf_counter_ns() + 1000 * self.delay_us
        while time.perf_counter_ns() < ends:
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    def wrap_producer(self) -> None:
        """In this process every producer has the knife at its steps."""
        if self._is_in_producer:
            return
        self._is_in_producer = True
        for method, step in (
            ("begin_transaction", "begin_topic"),
            ("prepare_transaction", "prepare"),
            ("complete_transaction", "complete"),
            ("start", "keep"),
        ):
            original = getattr(sync.Producer, method)
            setattr(sync.Producer, method, _wrapped(self, step, original))
        sync.Producer.begin_completing = _behind(self, sync.Producer.begin_completing)  # type: ignore[method-assign]

    def strike_later(self) -> threading.Thread:
        striker = threading.Thread(target=self._strike, daemon=True)
        striker.start()
        return striker


def _wrapped(knife: Knife, step: str, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: knife.around(step, lambda: original(*arguments))


def _behind(knife: Knife, original: Callable[..., sync.Begun]) -> Callable[..., sync.Begun]:
    def begin(producer: sync.Producer, state: Any, when_ended: Callable[[BaseException | None], None]) -> sync.Begun:
        def ended(error: BaseException | None) -> None:
            knife.at("after complete")
            when_ended(error)

        knife.at("before complete")
        begun = original(producer, state, ended)
        knife.at("after begin_completing")
        if knife.point == "while completing":
            knife.strike_later()
        return begun

    return begin


class KnifeDatabase:
    """An adapter with the knife at its steps."""

    def __init__(self, database: Any, knife: Knife) -> None:
        self._database, self._knife = database, knife
        self.errors = (*database.errors, ConnectionError)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def begin(self) -> Any:
        return _KnifeOpen(self._knife.around("begin_database", self._database.begin), self._knife)

    def take_over(self, *arguments: Any) -> Any:
        return self._knife.around("take_over", lambda: self._database.take_over(*arguments))

    def read(self, *arguments: Any) -> Any:
        return self._knife.around("read", lambda: self._database.read(*arguments))


class _KnifeOpen:
    def __init__(self, opened: Any, knife: Knife) -> None:
        self._opened, self._knife = opened, knife
        self.handle = opened.handle

    def store(self, *arguments: Any) -> Any:
        return self._knife.around("store", lambda: self._opened.store(*arguments))

    def commit(self) -> Any:
        return self._knife.commit(self._opened.commit)

    def rollback(self) -> None:
        self._opened.rollback()


class Life:
    """What a forked child does with; `tell` and `hear` are its lines to and from the parent."""

    def __init__(self, store: Store, broker: str, name: str, out: int, into: int) -> None:
        self.store, self.broker, self.name = store, broker, name
        self._out, self._into = out, os.fdopen(into)
        self.knife = Knife()
        self.topic = TOPIC

    def tell(self, **message: Any) -> None:
        os.write(self._out, json.dumps(message).encode() + b"\n")

    def hear(self) -> Any:
        return json.loads(self._into.readline() or "null")

    @contextlib.contextmanager
    def writer(self):
        self.knife.wrap_producer()
        with self.store.open() as database:
            writer = self.writer_of(database)
            try:
                yield writer, database
            finally:
                writer.stop()

    def writer_of(self, database: Any) -> DualWriter[Any]:
        config = {"bootstrap_servers": self.broker, "request_timeout_ms": 5000, "retry_backoff_ms": 10}
        wrapped = KnifeDatabase(database, self.knife)
        return DualWriter(wrapped, transactional_id=self.name, recovery_timeout_ms=60_000, **config)

    def put(self, writer: DualWriter[Any], value: int, *, prepares_first: bool = False) -> str:
        """Write one value; what the caller is told. `prepares_first`: in the KIP's order, the state is stored behind the
        records; else while they travel."""
        try:
            with writer.transaction() as tx:
                self.knife.around("send", lambda: self._send(tx, value))
                if prepares_first:
                    tx.prepare()
                self.knife.around("rows", lambda: self.store.write(tx.database, self.name, value))
        except (OncelogError, ConnectionError, *writer._database.errors) as error:
            return type(error).__name__
        return "committed"

    def _send(self, tx: Any, value: int) -> None:
        tx.send(self.topic, b"%d" % value, key=self.name.encode(), partition=0)


class Child:
    """A forked instance that runs `body(life)`."""

    def __init__(self, store: Store, broker: str, name: str, body: Callable[[Life], None], topic: str = TOPIC) -> None:
        from_child, out = os.pipe()
        into, to_child = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.process_id = os.fork()
        if self.process_id == 0:
            status = 1
            try:
                os.close(from_child)
                os.close(to_child)
                life = Life(store, broker, name, out, into)
                life.topic = topic
                body(life)
                status = 0
            except BaseException:  # noqa: BLE001  (told on stderr; the child must not go on as its parent)
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        os.close(out)
        os.close(into)
        self._lines = os.fdopen(from_child)
        self._to_child = to_child

    def hear(self) -> Any:
        """The next line, or None where the child is dead."""
        line = self._lines.readline()
        return json.loads(line) if line.endswith("\n") else None

    def rest(self) -> list[Any]:
        """All lines to its end."""
        return [json.loads(line) for line in self._lines if line.endswith("\n")]

    def go(self, message: Any = True) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._to_child, json.dumps(message).encode() + b"\n")

    def kill(self) -> None:
        os.kill(self.process_id, signal.SIGKILL)

    def wait(self) -> int:
        """Its wait status."""
        _, status = os.waitpid(self.process_id, 0)
        self._lines.close()
        os.close(self._to_child)
        return status

    def wait_until_stopped(self) -> bool:
        """Whether it stopped (and did not end)."""
        _, status = os.waitpid(self.process_id, os.WUNTRACED)
        return os.WIFSTOPPED(status)
