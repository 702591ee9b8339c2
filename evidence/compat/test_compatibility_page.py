"""docs/compatibility.md is what the generator makes of the last saved results; the results are those of today's checks."""

from __future__ import annotations

import json

import pytest

from evidence.compat.clients import page
from evidence.compat.clients.checks import CHECKS
from evidence.compat.clients.programs import HERE, PROGRAMS

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
