"""JAAS lines of existing deployments, and what is none."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasInvalid, jaas_entry


def test_lines_as_they_stand_in_server_properties():
    entry = jaas_entry(
        f'{PLAIN_MODULE} required username="broker" password="b-secret"   user_broker="b-secret" user_alice="a;=\\"\\\\"  ;'
    )
    assert entry.module == PLAIN_MODULE
    assert entry.options == {
        "username": "broker",
        "password": "b-secret",
        "user_broker": "b-secret",
        "user_alice": 'a;="\\',
    }
    assert jaas_entry(f"{SCRAM_MODULE} REQUIRED\n username=alice tokenauth=true;").options["tokenauth"] == "true"
    assert jaas_entry(f"{SCRAM_MODULE} required;").options == {}


def test_quotes_and_comments_are_javas():
    entry = jaas_entry(
        f"""{PLAIN_MODULE} required // the broker's own
        username='broker' /* and
        clients' */ user_alice='al"ice' user_bob="it's//no comment" user_carol="\\101\\60" ;"""
    )
    assert entry.options == {
        "username": "broker",
        "user_alice": 'al"ice',
        "user_bob": "it's//no comment",
        "user_carol": "A0",
    }


def test_several_modules_on_a_line_are_called_so():
    with pytest.raises(JaasInvalid, match="one login module"):
        jaas_entry(f'{PLAIN_MODULE} required user_a="b"; {SCRAM_MODULE} required;')


def test_nothing_of_the_options_is_shown():
    entry = jaas_entry(f'{PLAIN_MODULE} required username="u" password="hidden-word";')
    assert "hidden-word" not in repr(entry)
    assert "hidden-word" not in str(entry)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "Module;",
        "Module required",
        "Module needed;",
        '"Module" required;',
        "Module required a;",
        "Module required a=;",
        'Module required a="b;',
        'Module required a="b" "c";',
        "Module required a='b;",
        "Module required a='b\";",
        "Module required /* a=b;",
        'Module required a="b" a="c";',
        'Module required a="b"; Other required c="d";',
    ],
)
def test_a_line_that_is_none(text):
    with pytest.raises(JaasInvalid) as caught:
        jaas_entry(text)
    assert "Other" not in str(caught.value)


@given(st.text(max_size=100))
def test_any_text_is_an_entry_or_refused(text):
    with contextlib.suppress(JaasInvalid):
        jaas_entry(text)


@given(st.text(max_size=50))
def test_any_value_comes_through_its_quotes(value):
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert jaas_entry(f'{PLAIN_MODULE} required password="{quoted}";').options == {"password": value}
