"""One fault planted into a copy of a directory, reconciled, and compared."""

from __future__ import annotations

import pathlib
import random
import shutil
from collections.abc import Callable

from evidence.reconcile.planting import Impossible, Place, Planted
from oncelog.cli.commands.reconcile import reconciled
from oncelog.core.reconciliation.findings import Finding


def is_found(planted: Planted, findings: list[Finding]) -> bool:
    """Whether one of them is this fault, with the right witness."""
    return any(
        each.kind == planted.kind
        and (each.topic, each.partition) == (planted.topic, planted.partition)
        and (planted.offset < 0 or each.first_offset <= planted.offset <= each.last_offset)
        and planted.producer_id in (-1, each.producer_id)
        for each in findings
    )


def plant_and_judge(
    data: pathlib.Path, folder: pathlib.Path, plant: Callable[[Place], Planted], seed: str
) -> tuple[Planted, list[Finding]] | None:
    """What was planted by this seed, and what was found; None where the directory has no place for it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(data, folder)
    try:
        planted = plant(Place(folder, random.Random(seed)))
    except Impossible:
        return None
    report = reconciled([str(folder)])
    return planted, report.faults
