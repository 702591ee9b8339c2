"""The web console: who holds readers back, why, and the safe command (docs/console.md).

    oncelog console -b HOST:PORT          app(bootstrap_servers="...") as an ASGI application of your own

| file | what is there |
|---|---|
| `routes.py` | addresses and answers; the life of the application |
| `security.py` | who may ask: hosts, origins, the one-time link, sessions, limits |
| `login.py` | a console for each person, with their own name and password at the brokers |
| `watch.py` | the one reader that all pages share: lanes, open transactions, positions of groups |
| `judging.py` | what was seen becomes facts; core/diagnosis judges, cli/why has the words: the same as `oncelog why` |
| `group_judging.py` `group_pages.py` `group_rounds.py` | the same of groups; their page; all of them, some at a time |
| `past.py` | lanes of a time that is over |
| `answers.py` | what was seen as JSON: columns, times as differences |
| `pages.py` | the other pages: made by the functions of the commands that show the same |
| `records.py` `record_filter.py` | records of a partition, search, what is masked |
| `history.py` | the life of a transactional id; what Spark queries decided |
| `cluster_pages.py` `more.py` | topics, configurations, access rules, quotas, brokers; which page is at which address |
| `plans.py` | what may be done where writing is allowed, and only after a second look |
| `planned.py` | what a plan is, and keeping it |
| `group_plans.py` `resolve_plans.py` | plans that move a group's positions; that end what is in doubt as its database says |
| `static/` | the page: ES modules as written, no build step; `vendor/manifest.json` says what is others' |

Speaks to brokers through client/ only; changes nothing but by a plan. Needs the extra `oncelog[console]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["app"]


def app(
    *,
    bootstrap_servers: str,
    command_config: str | None = None,
    database_url: str | None = None,
    open_to_all: bool = False,
) -> Starlette:
    """The console as an ASGI application, to mount under any path of your own: every address in it is relative.

    `command_config`: a properties file with client settings; `database_url`: where dual writes are decided. `open_to_all`:
    no link with a token is asked for, because the application around it decides who gets here; otherwise
    `application.state.gate.new_link_token()` gives one. Raises ImportError without the extra `console`, ConfigurationError
    for a database's URL that nothing here understands.
    """
    if database_url is not None:
        from oncelog.recipes.opening import check_database_url

        check_database_url(database_url)
    from oncelog.cli.command import Settings
    from oncelog.console.routes import application
    from oncelog.console.security import Gate

    settings = Settings(bootstrap_servers=bootstrap_servers, command_config=command_config)
    return application(settings, Gate(hosts=None, is_open=open_to_all), database_url=database_url)
