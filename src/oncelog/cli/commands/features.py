"""`oncelog features`: the cluster's feature levels, above all transaction.version (0, 1, 2 = KIP-890, 3 = two-phase)."""

from __future__ import annotations

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Group, Settings
from oncelog.cli.numbers import is_number
from oncelog.cli.outcomes import each_of, pairs_of
from oncelog.cli.output import columns


@click.group(cls=Group)
def features() -> None:
    """Feature levels such as transaction.version.

    \b
    transaction.version
      0  the first protocol
      1  the same, in a log format with room for more
      2  KIP-890: an epoch per transaction, so a delayed message cannot join the next one
      3  two-phase commit (KIP-939); oncelog only
    """


@features.command("describe", watchable=True)
@click.pass_obj
async def describe_features(settings: Settings) -> None:
    """Finalized and supported levels."""
    async with open_admin(settings) as admin:
        found = await admin.describe_features()
    names = sorted(set(found.finalized) | set(found.supported))
    rows = []
    for name in names:
        low, high = found.supported.get(name, (None, None))
        row = {"feature": name, "finalized": found.finalized.get(name, 0), "supported_min": low, "supported_max": high}
        rows.append(row | {"features_epoch": found.features_epoch})
    settings.out.rows(columns("feature", "finalized", "supported_min", "supported_max", wide=["features_epoch"]), rows)


@features.command("upgrade", changes=True)
@click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL...")
@click.pass_obj
async def upgrade_features(settings: Settings, levels: tuple[str, ...]) -> None:
    """Raise feature levels."""
    await _update(settings, levels, "upgrade")


@features.command("downgrade", changes=True)
@click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL...")
@click.option("--unsafe", is_flag=True, help="Even where that loses something.")
@click.pass_obj
async def downgrade_features(settings: Settings, levels: tuple[str, ...], unsafe: bool) -> None:
    """Lower feature levels; 0 turns a feature off."""
    await _update(settings, levels, "unsafe_downgrade" if unsafe else "safe_downgrade")


async def _update(settings: Settings, levels: tuple[str, ...], upgrade_type: str) -> None:
    wanted: dict[str, int] = {}
    for name, level in pairs_of(levels, "feature levels").items():
        if not is_number(level):
            raise click.UsageError(f"{name}={level}: a level is a number")
        wanted[name] = int(level)
    async with open_admin(settings) as admin:
        if upgrade_type != "upgrade":
            now = (await admin.describe_features()).finalized
            lowered = {name: level for name, level in wanted.items() if level < now.get(name, 0)}
            changes = "; ".join(f"{name} from {now[name]} to {level}" for name, level in lowered.items())
            unsafe = ", even where that loses something" if upgrade_type.startswith("unsafe") else ""
            if lowered:  # of what is no lower level the broker says so
                settings.confirm(f"lower {changes}, for all clients{unsafe}", next(iter(lowered)))

        async def update(name: str) -> None:
            await admin.update_features({name: wanted[name]}, upgrade_type=upgrade_type, validate_only=settings.dry_run)

        await each_of(settings, "feature", wanted, "would be changed" if settings.dry_run else "changed", update)
