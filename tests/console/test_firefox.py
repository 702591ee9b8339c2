"""The same night in Firefox (`make browser`): by keyboard, and every page once. Puppeteer comes from npm, into build/."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from tests.console.conftest import Console

PUPPETEER = os.environ.get("ONCELOG_PUPPETEER", "")
FIREFOX = os.environ.get("FIREFOX_PATH") or next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
JOURNEY = pathlib.Path(__file__).parent / "firefox.mjs"
JOURNEY_S = 240
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not PUPPETEER, reason="make browser fetches puppeteer-core with npm"),
    pytest.mark.skipif(FIREFOX is None, reason="no Firefox: apt-get install firefox-esr, or FIREFOX_PATH"),
]


def test_the_night_in_firefox(console: Console) -> None:
    assert FIREFOX is not None
    command = ["node", str(JOURNEY), str(pathlib.Path(PUPPETEER).absolute()), FIREFOX, console.link]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JOURNEY_S, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "token" not in found["url"]
    assert "payments-0: ledger-7" in found["detail"]
    assert "ledger-7 prepared" in found["kinds"]
    assert "<img src=x onerror=alert(1)>" in found["names"]
    assert found["images"] == 0
    assert found["titles"]["history?id=ledger-7"] == "ledger-7 is Ongoing"
    count, *words = found["titles"]["open"].split()
    assert (words, int(count) >= 3) == (["open", "transactions"], True), "the night's, and what other tests left open"
    assert found["errors"] == []
