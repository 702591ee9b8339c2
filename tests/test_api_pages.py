"""docs/api/ has every public name of every public module."""

from __future__ import annotations

import importlib

import pytest
from tools import api_pages


@pytest.mark.parametrize("module", api_pages.INTROS)
def test_the_page_is_current(module: str) -> None:
    assert api_pages.page(module).read_text(encoding="utf-8") == api_pages.render(module), "python -m tools.api_pages"


def test_no_other_page_is_there() -> None:
    assert set(api_pages.FOLDER.iterdir()) == {api_pages.page(module) for module in api_pages.INTROS}


@pytest.mark.parametrize("module", api_pages.INTROS)
def test_every_public_name_has_words(module: str) -> None:
    for name in api_pages.names(module):
        value = getattr(importlib.import_module(module), name)
        assert value.__doc__ or module == "oncelog.errors", name
