"""What a viewer may not see: brokers leave it out of their lists and say nothing of it, so no list without it is an all-clear.

Asked as the command line asks (cli/hidden.py); here the operation that is missing is named, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.cli.hidden import GROUPS, TOPICS, TRANSACTIONAL_IDS, why_not_all
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.hanging import PROBE_ID
from oncelog.core.diagnosis.facts import NotRead

HIDDEN = "HIDDEN"
SEEN_BY: Mapping[str, str] = {
    TOPICS: "DESCRIBE on every Topic",
    GROUPS: "DESCRIBE on every Group",
    TRANSACTIONAL_IDS: "DESCRIBE on every TransactionalId",
}


async def unseen(admin: Admin, *kinds: str, probe_id: str = PROBE_ID) -> list[NotRead]:
    """For each kind of which there may be more than is shown: why. `probe_id`: see `why_not_all`."""
    reasons = {kind: await why_not_all(admin, kind, probe_id) for kind in kinds}
    return [
        NotRead(f"some {kind}", HIDDEN, f"{why}: all are shown to who has {SEEN_BY[kind]}")
        for kind, why in reasons.items()
        if why
    ]


def as_row(missing: NotRead) -> dict[str, str]:
    """As pages have it in `not_read`."""
    return {"what": missing.what, "error": missing.error, "why": missing.why}
