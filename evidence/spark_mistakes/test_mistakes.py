"""Every mistake is told, in one line that fits a screen, and docs/spark-mistakes.md has it."""

from __future__ import annotations

import pytest
from tools import spark_mistakes_page as page

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def test_the_page_is_what_is_told_now() -> None:
    text = page.render()
    assert page.PAGE.read_text(encoding="utf-8") == text, "python -m tools.spark_mistakes_page"
    for line in text.splitlines():
        assert not line.startswith("|") or len(line) < 700, line
