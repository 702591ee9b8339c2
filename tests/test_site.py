"""docs/index.md is the way to every page of the site that `make docs` builds. Needs no Sphinx."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
from packaging.version import InvalidVersion
from tools.site.contents import INDEX, ROOT, contents, pages, toctrees
from tools.site.versions import publish


def listed() -> list[str]:
    found = [page for entries in contents(INDEX.read_text(encoding="utf-8")).values() for _, page in entries]
    return [str((INDEX.parent / page).resolve().relative_to(ROOT)) for page in found]


def test_every_page_is_in_the_table_of_contents_once() -> None:
    assert sorted(listed()) == sorted(pages())


def test_a_page_that_is_missing_is_found() -> None:
    text = "# x\n## Where\n[a](a.md)\n## All pages\n### One\n* [b](b.md)\n* [c](../c.md#d) [e](e.md)\n## After\n[f](f.md)\n"
    assert contents(text) == {"One": [("b", "b.md"), ("e", "e.md")]}


def test_sphinx_gets_a_toctree_for_each_caption() -> None:
    captions = re.findall(r":caption: (.+)", toctrees())
    assert captions == list(contents(INDEX.read_text(encoding="utf-8")))
    assert "\nTutorials, and how to install <tutorials/README>\n" in toctrees()


def sections(heading: str) -> str:
    text = INDEX.read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_ten_questions_have_a_link_each_and_four_readers_an_order() -> None:
    questions = re.findall(r"^\d+\. .+\?.*\]\((.+)\)$", sections("Ten questions"), re.MULTILINE)
    assert len(questions) == 10
    orders = sections("Where to begin").split("\n**")[1:]
    assert len(orders) == 4
    assert all(len(re.findall(r"^\d+\. \[", order, re.MULTILINE)) == 4 for order in orders)


@pytest.mark.parametrize("page", sorted(pages() | {"docs/index.md"}))
def test_a_page_begins_with_one_title(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1


@pytest.mark.parametrize("page", sorted(pages() - {page for page in pages() if page.startswith("docs/api/")}))
def test_nothing_in_a_page_is_for_sphinx_only(page: str) -> None:
    assert not re.search(r"^```\{|^:::|\{(?:ref|doc|term)\}`", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)


def test_each_picture_has_words_for_those_who_cannot_see_it() -> None:
    for page in pages():
        for alternative, name in re.findall(r"!\[(.*?)\]\((.+?)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert len(alternative) > 20, (page, name)
            assert ((ROOT / page).parent / name).exists()


def pages_of(folder: pathlib.Path, text: str) -> pathlib.Path:
    (folder / "docs").mkdir(parents=True)
    (folder / "docs/index.html").write_text(text)
    return folder


def test_a_version_stands_beside_the_others_and_one_that_is_built_again_is_replaced(tmp_path: pathlib.Path) -> None:
    site = tmp_path / "site"
    publish(pages_of(tmp_path / "a", "old"), site, "0.9.0")
    publish(pages_of(tmp_path / "b", "first"), site, "0.10.0")
    (site / ".0.10.0.new").mkdir()  # an earlier run was killed
    (site / "images").mkdir()  # somebody else's
    publish(pages_of(tmp_path / "c", "second"), site, "0.10.0")
    assert publish(pages_of(tmp_path / "d", "next"), site, "0.11.0.dev1") == ["0.11.0.dev1", "0.10.0", "0.9.0"]
    assert json.loads((site / "versions.json").read_text()) == ["0.11.0.dev1", "0.10.0", "0.9.0"]
    assert (site / "0.9.0/docs/index.html").read_text() == "old"
    assert (site / "0.10.0/docs/index.html").read_text() == "second"
    assert "url=0.10.0/docs/index.html" in (site / "index.html").read_text()
    assert not [path.name for path in site.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["latest", "../elsewhere", ""])
def test_a_name_that_is_no_version_changes_nothing(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(InvalidVersion):
        publish(pages_of(tmp_path / "a", "x"), tmp_path / "site", name)
    assert not (tmp_path / "site").exists()
