"""`oncelog completion`: the script that teaches a shell oncelog's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from oncelog.cli.command import Settings, command


@command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  echo 'eval "$(oncelog completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(oncelog completion zsh)"' >> ~/.zshrc
    fish:  oncelog completion fish > ~/.config/fish/completions/oncelog.fish
    """
    out = ctx.ensure_object(Settings).out
    if out.format != "table":
        raise click.UsageError("a script has one form only: -o has no meaning here", ctx)
    found = get_completion_class(shell)
    assert found is not None
    script = found(ctx.find_root().command, {}, "oncelog", "_ONCELOG_COMPLETE").source()
    out.data(script + "\n")
