"""Changes to what a seed draws, as one line of text: how a smaller run is repeated.

"clients=1;network.cut=0;strangers=groups;groups=0;skipped=end-broker.2,cut.7;knobs=producer:batch_size:1": numbers are set,
of strangers and groups (by their place) only those named are kept, the named single faults do not happen, and the knobs that
are not named stand where they stand by default.
"""

from __future__ import annotations

from dataclasses import fields, replace

from evidence.simulator.faults import FaultOptions
from evidence.world.network import NetworkFaults

NETWORK = "network."
LISTS = ("strangers", "skipped", "knobs")
GROUPS = ("groups", "sharers")


def changed(drawn: FaultOptions, text: str) -> FaultOptions:
    """`drawn` with the changes. Raises ValueError."""
    options = replace(drawn, network=replace(drawn.network))
    for part in filter(None, text.split(";")):
        name, _, value = part.partition("=")
        if name.startswith(NETWORK):
            setattr(options.network, _known(name.removeprefix(NETWORK), NetworkFaults), float(value))
        elif name in LISTS:
            setattr(options, name, tuple(filter(None, value.split(","))))
        elif name in GROUPS:
            before = getattr(drawn, name)
            setattr(options, name, tuple(before[int(place)] for place in value.split(",") if place))
        else:
            present = getattr(options, _known(name, FaultOptions))
            if isinstance(present, bool):
                setattr(options, name, value == "True")
            else:
                setattr(options, name, type(present)(value))
    return options


def _known(name: str, cls: type) -> str:
    if name not in {each.name for each in fields(cls)}:
        raise ValueError(f"{name!r} is no option")
    return name


def changes_between(drawn: FaultOptions, options: FaultOptions) -> str:
    """The text that makes `options` of `drawn`."""
    parts = []
    for each in fields(FaultOptions):
        before, after = getattr(drawn, each.name), getattr(options, each.name)
        if before == after:
            continue
        if each.name == "network":
            for one in fields(NetworkFaults):
                if getattr(before, one.name) != getattr(after, one.name):
                    parts.append(f"{NETWORK}{one.name}={getattr(after, one.name)!r}")
        elif each.name in GROUPS:
            parts.append(f"{each.name}={','.join(str(before.index(group)) for group in after)}")
        elif each.name in LISTS:
            parts.append(f"{each.name}={','.join(after)}")
        else:
            parts.append(f"{each.name}={after!r}")
    return ";".join(parts)
