"""The blocking writer is what the asyncio one gives; whoever changes one of them alone is told."""

from __future__ import annotations

import inspect
import pathlib
import shutil

import pytest
from tools import sync_recipes as tool

from oncelog.recipes.async_runtime import AsyncRuntime
from oncelog.recipes.sync_runtime import SyncRuntime


def test_the_blocking_writer_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("changed", ["SOURCE", "TARGET"])
def test_a_change_of_one_alone_is_told(
    changed: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for which in ("SOURCE", "TARGET"):
        copy = tmp_path / f"{which}.py"
        shutil.copy(getattr(tool, which), copy)
        monkeypatch.setattr(tool, which, copy)
    path: pathlib.Path = getattr(tool, changed)
    text = path.read_text(encoding="utf-8")
    other = text.replace("self._machine.abandon", "self._machine.mislaid", 1)
    assert other != text
    path.write_text(other, encoding="utf-8")
    assert tool.main(["--check"]) == 1
    assert "self._machine.mislaid" in capsys.readouterr().out
    assert tool.main([]) == 0
    assert tool.main(["--check"]) == 0
    assert ("self._machine.mislaid" in tool.TARGET.read_text(encoding="utf-8")) is (changed == "SOURCE")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("        await self.recover()\n", "        await asyncio.shield(self.recover())\n", "left .*: asyncio"),
        ("        host: Host | None = None,\n", "", "LINES"),
        ("__aexit__", "_exit", "WORDS"),
    ],
)
def test_what_the_tables_do_not_fit_is_refused(old: str, new: str, told: str) -> None:
    source = tool.SOURCE.read_text(encoding="utf-8")
    assert old in source
    with pytest.raises(tool.Untranslatable, match=told):
        tool.render(source.replace(old, new))


def test_the_two_runtimes_have_the_same_calls() -> None:
    def calls(runtime: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(call).parameters)
            for name, call in inspect.getmembers(runtime, inspect.isfunction)
            if not name.startswith("_")
        }

    assert calls(AsyncRuntime) == calls(SyncRuntime)
