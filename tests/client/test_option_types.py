"""The options for type checkers are those that the clients take, each of its type."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Required, get_origin, get_type_hints

import pytest

from oncelog.client import option_types
from oncelog.client.config import ALIASES, AdminConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
from oncelog.client.option_types import (
    AdminOptions,
    ConsumerOptions,
    DualWriterOptions,
    ProcessClientOptions,
    ProcessOptions,
    ProducerOptions,
    ShareConsumerOptions,
)
from oncelog.client.processing.options import _OURS
from oncelog.client.processing.processor import Processor
from oncelog.recipes.endings import _OURS as SET_BY_DUAL_WRITES

WIDER = {  # than the type of what it is converted to
    "bootstrap_servers": option_types.Several,
    "partition_assignment_strategy": option_types.Several,
    "acks": str | int,
    "compression_type": str | None,
}


def fields(config: type[Any]) -> dict[str, str]:
    return {each.name: str(each.type) for each in dataclasses.fields(config)}


@pytest.mark.parametrize(
    ("options", "config"),
    [
        (ProducerOptions, ProducerConfig),
        (ConsumerOptions, ConsumerConfig),
        (ShareConsumerOptions, ShareConsumerConfig),
        (AdminOptions, AdminConfig),
    ],
)
def test_every_option_of_a_client_with_its_type(options: Any, config: type[Any]) -> None:
    known, hints = fields(config), get_type_hints(options)
    assert hints.keys() == known.keys() | {name for name, means in ALIASES.items() if means in known}
    for name, hint in hints.items():
        means = ALIASES.get(name, name)
        if known[means] != "Any":  # of functions and objects the configuration says no more
            assert hint == WIDER.get(means, eval(known[means])), name


def test_what_process_hands_on_is_what_it_does_not_decide() -> None:
    known = fields(ProducerConfig).keys() | fields(ConsumerConfig).keys() | ALIASES.keys()
    own = inspect.signature(Processor.__init__).parameters.keys()
    assert ProcessClientOptions.__annotations__.keys() == known - _OURS.keys() - own


def test_what_a_dual_writer_hands_on_is_what_it_does_not_decide() -> None:
    known = fields(ProducerConfig).keys() | {name for name, means in ALIASES.items() if means in fields(ProducerConfig)}
    assert get_type_hints(DualWriterOptions).keys() == known - set(SET_BY_DUAL_WRITES)


def test_the_arguments_of_process_are_the_processors() -> None:
    parameters = inspect.signature(Processor.__init__).parameters.values()
    own = {each.name: each for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    hints, said = get_type_hints(ProcessOptions), get_type_hints(Processor.__init__)
    assert hints.keys() - ProcessClientOptions.__annotations__.keys() == own.keys()
    assert {name: hints[name] for name in own} == {name: said[name] for name in own}
    required = {name for name, each in own.items() if each.default is inspect.Parameter.empty}
    extras = get_type_hints(ProcessOptions, include_extras=True)
    assert {name for name, hint in extras.items() if get_origin(hint) is Required} == required == {"group_id"}
