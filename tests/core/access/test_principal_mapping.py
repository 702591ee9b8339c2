"""ssl.principal.mapping.rules: the first that fits the whole subject."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.access.principal_mapping import NoRuleFits, RulesInvalid, mapping_rules, principal_name

SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", SUBJECT),
        ("", SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1@$1/L,DEFAULT", "duke@duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U", "DUKE@SERVICEUSERS"),
        ("RULE:CN=Duke/short/,RULE:^CN=([^,]+),.*$/$1/,DEFAULT", "Duke"),
        ("RULE:^.*$/all, of them/", "all, of them"),
        ("RULE:^CN=(X)?.*$/[$1]/", "[]"),
        ("RULE:^CN=(\\w+),.*\\/?.*$/$1/", "Duke"),
    ],
)
def test_rules(rules, name):
    assert principal_name(SUBJECT, mapping_rules(rules)) == name


def test_a_subject_that_no_rule_is_about():
    with pytest.raises(NoRuleFits):
        principal_name(SUBJECT, mapping_rules("RULE:^CN=Duke$/duke/"))


@pytest.mark.parametrize(
    "rule", ["RULE:^CN=(\\w+),.*$/$1/", "RULE:(?i)^cn=(D\u00dcKE),.*$/$1/", "RULE:^CN=Duke\\d,.*$/d/"]
)
def test_letters_and_digits_are_those_of_java(rule):
    """There \\w is a-z, A-Z, 0-9 and _: a rule that is careful in Kafka is careful here."""
    for subject in ("CN=D\u00fcke,O=Org", "CN=Duke\u0663,O=Org"):
        assert principal_name(subject, mapping_rules(f"{rule},DEFAULT")) == subject


@pytest.mark.parametrize(
    "rules", ["RULE:a/b", "RULE:a", "nonsense", "DEFAULT,", "RULE:(/x/", "RULE:a/$1/", "RULE:a/b/X", "DEFAULT DEFAULT"]
)
def test_rules_that_are_none(rules):
    if rules == "DEFAULT,":
        assert len(mapping_rules(rules)) == 1
        return
    with pytest.raises(RulesInvalid):
        mapping_rules(rules)


@given(st.text(max_size=60))
def test_any_text_is_rules_or_refused(text):
    try:
        rules = mapping_rules(text)
    except RulesInvalid:
        return
    assert rules
