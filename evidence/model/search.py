"""Every state that can be reached within the limits, breadth first: the first violation has the shortest story."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from evidence.model import clients, coordinator, leader, promises
from evidence.model.states import Client, Coordinator, Kind, Leader, Limits, Message, Rules, World, sent
from oncelog.core.transactions.transaction import PREPARED

Move = tuple[str | Message, World]  # a message's name is only needed for a story


@dataclass
class Result:
    """What was found; `story` is the way to the violation, a line per step."""

    states: int = 0
    transitions: int = 0
    last_states: int = 0
    depth: int = 0
    violation: str = ""
    story: list[str] = field(default_factory=list)
    coordinator_transitions: set[tuple[str, str]] = field(default_factory=set)
    is_complete: bool = True


def beginning(rules: Rules, limits: Limits) -> World:
    leaders = tuple(Leader() for _ in range(rules.partition_count))
    return World(Coordinator(), leaders, (Client(), Client()), frozenset(), limits)


def moves(world: World, rules: Rules) -> Iterator[Move]:
    """Everything that may happen next, but for what leads to the same states anyway.

    Answers to clients are read at once: a client that retries before it reads an answer could have retried before the
    answer was given. Of equal messages one is delivered.
    """
    answer = next((message for message in world.network if message.kind is Kind.REPLY), None)
    if answer is not None:
        yield answer, _replied(world._replace(network=world.network - {answer}), answer, rules)
        return
    for message in world.network:
        if message._replace(copy=message.copy + 1) in world.network:
            continue
        after = _delivered(world, message, rules)
        if after is not None:
            yield message, after
    if world.coordinator.pending:
        step = coordinator.synced(world.coordinator, rules)
        yield "sync", _with_coordinator(world, step)
    limits = world.limits
    if limits.requests:
        yield from _requests(world, rules)
    if limits.timeouts:
        timeout = coordinator.timed_out(world.coordinator, rules)
        if timeout is not None:
            less = world._replace(limits=limits._replace(timeouts=limits.timeouts - 1))
            yield "timeout", _with_coordinator(less, timeout)
    if limits.coordinator_crashes and _has_something_to_lose(world.coordinator):
        less = world._replace(limits=limits._replace(coordinator_crashes=limits.coordinator_crashes - 1))
        for kept_count in range(len(world.coordinator.pending) + 1):
            step = coordinator.crashed(world.coordinator, rules, kept_count=kept_count)
            yield f"coordinator restarts ({kept_count} unsynced records kept)", _with_coordinator(less, step)
    if limits.leader_crashes and world.leaders[0].log:
        yield "leader of p0 restarts", _leader_restarts(world)


def _has_something_to_lose(state: Coordinator) -> bool:
    """Otherwise a restart changes nothing but the coordinator epoch."""
    record = state.record
    return bool(state.pending) or (record is not None and record.state in PREPARED)


def _requests(world: World, rules: Rules) -> Iterator[Move]:
    less = world._replace(limits=world.limits._replace(requests=world.limits.requests - 1))
    for index, client in enumerate(world.clients):
        for message in clients.requests(index, client, world.stored, rules):
            after = clients.sending(client, message)
            moved = less._replace(network=sent(world.network, message), clients=_replaced(world.clients, index, after))
            yield "send", moved
        if rules.two_phase and index == 0 and world.clients[1].request_count == 0 and _may_store(client):
            # The business rows and the prepared state are committed; later the second instance has claimed the row.
            stored = client.transactions[-1]._replace(asked=True)
            after = client._replace(transactions=(*client.transactions[:-1], stored))
            moved = world._replace(clients=_replaced(world.clients, 0, after), stored=client.identity)
            yield "A's database commits", moved


def _may_store(client: Client) -> bool:
    return (
        not client.is_dead
        and client.request is None
        and len(client.produced) > 0
        and not client.must_abort
        and client.transactions[-1].asked is None
    )


def _delivered(world: World, message: Message, rules: Rules) -> World | None:
    network = world.network - {message}
    plain = message._replace(copy=0)
    if message.kind in (Kind.INIT, Kind.ADD, Kind.END, Kind.ASK):
        step = coordinator.request(world.coordinator, plain, rules)
        return None if step is None else _with_coordinator(world._replace(network=network), step)
    if message.kind is Kind.WRITTEN:
        done = coordinator.written(world.coordinator, plain, rules)
        return _with_coordinator(world._replace(network=network), done)
    if message.kind is Kind.ANSWER and message.error:
        assert message.waiting is not None
        reply = Message(Kind.REPLY, message.waiting.client, message.waiting.number, error=message.error)
        return world._replace(network=sent(network, reply))
    return _at_leader(world._replace(network=network), plain, rules)


def _at_leader(world: World, message: Message, rules: Rules) -> World:
    state = world.leaders[message.partition]
    if message.kind is Kind.MARKER:
        step = leader.marker(state, message, rules)
    elif message.kind is Kind.ANSWER:
        assert message.waiting is not None
        step = leader.produce(state, message.waiting, rules, message.guard)
    else:
        step = leader.produce(state, message, rules)
    leaders = (*world.leaders[: message.partition], step.leader, *world.leaders[message.partition + 1 :])
    network = world.network if step.message is None else sent(world.network, step.message)
    return world._replace(leaders=leaders, network=network)


def _replied(world: World, reply: Message, rules: Rules) -> World:
    client = world.clients[reply.client]
    after = clients.answered(client, reply, rules)
    if after == client:
        return world
    promised = world.promises
    request = client.request
    if request is not None and request.kind is Kind.END and reply.error == 0:
        promised |= {(request.identity, request.commit, reply.identity)}
    # Further answers to the same request will not be read: without them fewer states differ.
    network = frozenset(m for m in world.network if m.kind is not Kind.REPLY or m.client != reply.client)
    return world._replace(network=network, clients=_replaced(world.clients, reply.client, after), promises=promised)


def _leader_restarts(world: World) -> World:
    limits = world.limits._replace(leader_crashes=world.limits.leader_crashes - 1)
    network = frozenset(
        m for m in world.network if m.partition != 0 or m.kind not in (Kind.ASK, Kind.ANSWER)
    )  # what it had asked for is forgotten with who had asked it
    return world._replace(
        leaders=(leader.restarted(world.leaders[0]), *world.leaders[1:]), network=network, limits=limits
    )


def _with_coordinator(world: World, step: coordinator.Step) -> World:
    network = world.network
    for message in step.messages:
        network = sent(network, message)
    return world._replace(coordinator=step.coordinator, network=network)


def _replaced(all_clients: tuple[Client, ...], index: int, client: Client) -> tuple[Client, ...]:
    return (*all_clients[:index], client, *all_clients[index + 1 :])


def settled(world: World, rules: Rules) -> World:
    """The end of a state in which nobody may ask for more: the open transaction times out, its markers arrive."""
    world = world._replace(limits=Limits(0, 1, 0, 0))
    while True:
        step = next(moves(world, rules), None)
        if step is None:
            return world
        world = step[1]


def explore(
    rules: Rules,
    limits: Limits,
    *,
    states_max: int = 10**9,
    seconds_max: float = 10**9,
    progress: Callable[[Result], None] | None = None,
) -> Result:
    """Breadth first from the beginning, up to the first violation, a limit, or the end."""
    result = Result()
    start = beginning(rules, limits)
    came_from: dict[World, tuple[World, str | Message] | None] = {start: None}
    waiting = deque([(start, 0)])
    checked: set[tuple[tuple[Leader, ...], tuple[tuple[object, ...], ...]]] = set()
    deadline = time.monotonic() + seconds_max
    while waiting:
        world, result.depth = waiting.popleft()
        is_last = True
        for label, after in moves(world, rules):
            is_last = False
            result.transitions += 1
            if after in came_from:
                continue
            came_from[after] = (world, label)
            waiting.append((after, result.depth + 1))
            _note(result, world, after)
            if violation := _violation(world, after, rules, checked):
                return _told(result, violation, after, came_from)
        if is_last:
            result.last_states += 1
            end = settled(world, rules)
            for violation in promises.broken_at_the_end(end, rules):
                return _told(result, violation, world, came_from)
            for violation in promises.broken_in_logs(end.leaders, end.clients, rules):
                return _told(result, violation, world, came_from)
        result.states = len(came_from)
        if result.states % 4096 == 0 and progress:
            progress(result)
        if result.states >= states_max or time.monotonic() > deadline:
            result.is_complete = not waiting
            return result
    return result


def _violation(before: World, after: World, rules: Rules, checked: set[object]) -> str:
    for violation in promises.broken_between(before, after, rules):
        return violation
    key = (after.leaders, tuple(client.transactions for client in after.clients))
    if key not in checked:
        for violation in promises.broken_in_logs(after.leaders, after.clients, rules):
            return violation
        checked.add(key)
    return ""


def _note(result: Result, before: World, after: World) -> None:
    old, new = before.coordinator.record, after.coordinator.record
    if (
        new is not None
        and old is not new
        and before.coordinator.coordinator_epoch == after.coordinator.coordinator_epoch
    ):
        result.coordinator_transitions.add(("NONE" if old is None else old.state.name, new.state.name))


def _told(
    result: Result, violation: str, world: World, came_from: dict[World, tuple[World, str | Message] | None]
) -> Result:
    story = []
    at: World | None = world
    while at is not None:
        step = came_from[at]
        logs = " | ".join(promises.describe_log(each) for each in at.leaders)
        label = step[1] if step else "beginning"
        if isinstance(label, Message):
            label = promises.describe_message(label)
        if label == "send" and step:
            label = "send " + ", ".join(map(promises.describe_message, at.network - step[0].network))
        story.append(f"{label:44} {promises.describe_coordinator(at.coordinator):34} {logs}")
        at = step[0] if step else None
    result.violation, result.story = violation, story[::-1]
    result.states = len(came_from)
    return result
