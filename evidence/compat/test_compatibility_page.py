"""docs/compatibility.md is what the generator makes of the last saved results; the results are those of today's checks."""

from __future__ import annotations

import json

import pytest

from evidence.compat.clients import page
from evidence.compat.clients.checks import CHECKS
from evidence.compat.clients.programs import HERE, PROGRAMS
from evidence.compat.clients.security import tables
from evidence.compat.clients.security.programs import COMMANDS
from evidence.compat.clients.security.ways import WAYS
from evidence.compat.stories_of_secured_tools import SECURED_STORIES

SAVED = json.loads(page.RESULTS.read_text())


def test_the_page_is_current():
    assert page.PAGE.read_text() == page.render(), "edit page.md; then python -m evidence.compat.clients.page"


@pytest.mark.parametrize("client", PROGRAMS)
def test_every_client_was_asked_everything(client):
    saved = SAVED["clients"][client]
    assert "missing" not in saved
    for server in page.SERVERS:
        assert list(saved[server]) == sorted(CHECKS)


def test_what_a_client_lacks_it_lacks_with_both_brokers():
    """An absent call is the client's: a reason that only one broker meets would be a failure."""
    for name, saved in SAVED["clients"].items():
        absent = [{check for check, it in saved[server].items() if it.startswith("absent")} for server in page.SERVERS]
        assert absent[0] == absent[1], name


def test_no_program_names_a_registry():
    lock = (HERE / "kafkajs" / "package-lock.json").read_text()
    assert "resolved" not in lock
    assert "http" not in lock


def test_counts_are_in_words():
    outcomes = {name: {"result": result} for name, result in (("a", "passed"), ("b", "absent"), ("c", "passed"))}
    assert page.count(outcomes) == "2 passed, 1 absent"


@pytest.mark.parametrize("client", PROGRAMS)
def test_every_client_came_by_every_way(client):
    saved = SAVED["security"][client]
    assert client in COMMANDS
    for server in page.SERVERS:
        assert {way: set(steps) for way, steps in saved[server].items()} == {
            name: set(way.steps) for name, way in WAYS.items()
        }
        assert tables.count(saved[server])["failed"] == 0


def test_no_secured_cell_is_poorer_than_with_apache_kafka():
    assert tables.worse(SAVED["security"]) == []


@pytest.mark.parametrize("name", SECURED_STORIES)
def test_every_story_of_the_secured_tools_was_told_alike(name):
    assert SAVED["tools"][name] == {"oncelog": "passed", "kafka": "passed", "printed": "the same"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"result": "told"}, {"result": "passed"}),
        ({"result": "failed"}, {"result": "refused"}),
        ({"result": "absent"}, {"result": "passed"}),
        ({"result": "passed", "errors": ["cut"]}, {"result": "passed"}),
        ({"result": "passed", "again": False}, {"result": "passed", "again": True}),
    ],
)
def test_a_poorer_cell_is_named(ours, theirs):
    def worse(one, other):
        return tables.worse({"c": {"oncelog": {"SSL": {"load": one}}, "kafka": {"SSL": {"load": other}}}})

    assert len(worse(ours, theirs)) == 1
    assert worse(theirs, ours) == []


def test_a_run_of_some_ways_keeps_the_others():
    held = {"SSL": {"transaction": 1, "wrong": 2}, "mTLS": {"wrong": 3}}
    assert page.over(held, {"SSL": {"wrong": 4}}) == {"SSL": {"transaction": 1, "wrong": 4}, "mTLS": {"wrong": 3}}
    assert page.over("1.0", "1.1") == "1.1"
    assert page.over(None, {"SSL": {}}) == {"SSL": {}}
