"""The demo's course."""

from __future__ import annotations

import pytest

from oncelog.demo.run import Demo


class Ended(Exception):
    pass


class Broker:
    bootstrap, ready_ms = "h:1", 0

    def start(self):
        self.ready_ms = 7


def test_it_notes_how_long_the_broker_took(tmp_path, monkeypatch):
    def end(_):
        raise Ended

    monkeypatch.setattr(Demo, "create_topics", end)
    demo = Demo(tmp_path / "demo", 1)
    demo.broker = Broker()
    with pytest.raises(Ended):
        demo.run()
    assert [(each["event"], each["ready_ms"]) for each in demo.events] == [("broker started", 7)]
