"""What each process is started with, and when it is started again."""

from __future__ import annotations

import pytest

from oncelog.core.access.listeners import ListenerInvalid
from oncelog.core.processes.process_plan import RESTART_PAUSE_S_MAX, STEADY_S, Restarts, directory_of, process_plans


def test_each_has_its_id_its_directory_and_the_next_port() -> None:
    plans = process_plans(3, "/data", ["127.0.0.1:9092"], {})
    assert [plan.node_id for plan in plans] == [1, 2, 3]
    assert [plan.listen for plan in plans] == [(f"PLAINTEXT://127.0.0.1:{9092 + index}",) for index in range(3)]
    assert [plan.data_directory for plan in plans] == ["/data", "/data/processes/1", "/data/processes/2"]
    assert plans[2].values == {"node.id": "3", "metrics.listen": ""}


def test_listeners_of_the_configuration_move_on_too() -> None:
    values = {"listeners": "SASL_SSL://:9094, IN://[::1]:9194", "advertised.listeners": "SASL_SSL://host.example:19094"}
    _, second = process_plans(2, "/data", ["127.0.0.1:9092"], values | {"node.id": "10"})
    assert second.node_id == 11
    assert second.values["listeners"] == "SASL_SSL://:9095,IN://[::1]:9195"
    assert second.values["advertised.listeners"] == "SASL_SSL://host.example:19095"


def test_an_old_name_of_the_id_moves_on_with_it() -> None:
    _, second = process_plans(2, "/data", [], {"broker.id": "4"})
    assert (second.values["node.id"], second.values["broker.id"]) == ("5", "5")


@pytest.mark.parametrize(
    ("listen", "values"),
    [
        (["127.0.0.1:0"], {}),
        (["127.0.0.1:65534"], {}),
        (["nowhere"], {}),
        ([], {"listeners": "A:B:C"}),
        ([], {"node.id": "x"}),
        ([], {"node.id": "-1"}),
        (["127.0.0.1:9092", "127.0.0.1:9094"], {}),
        ([], {"listeners": "A://h:9095,B://h:9093"}),
    ],
)
def test_what_cannot_be_is_said_in_a_line(listen: list[str], values: dict[str, str]) -> None:
    with pytest.raises(ListenerInvalid) as told:
        process_plans(3, "/data", listen, values)
    assert len(str(told.value).splitlines()) == 1


def test_the_first_process_has_the_directory_itself() -> None:
    assert directory_of("d", 0) == "d"


def test_who_does_not_live_long_is_started_again_slower_and_slower() -> None:
    restarts = Restarts()
    pauses = [restarts.pause_s(1.0) for _ in range(12)]
    assert pauses[0] == 0.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == RESTART_PAUSE_S_MAX
    assert restarts.pause_s(STEADY_S) == 0.0
