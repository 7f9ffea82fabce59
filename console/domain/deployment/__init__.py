"""What the servers on a host amount to together, and with the records of what was launched there.

none → starting → roles up → ready ⇄ degraded        ready of a pair only by a proof that is newer than
          └──────────┴─────────┴→ broken             both of its roles
stopping → none
failed: a start was given up, or a stop did not get to its end
"""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.gpu import NO_GPUS, GpuReport
from console.domain.run_record import HostRecords
from console.domain.server_view import ServerView

from .parts import parts_of
from .rules import RULES, standing
from .seen import Seen
from .state import NO_DEPLOYMENT, Deployment, DeploymentState, unlaunched
from .under_way import plan_under_way, told

__all__ = [
    "NO_DEPLOYMENT",
    "NO_RECORDS",
    "Deployment",
    "DeploymentState",
    "observed",
    "plan_under_way",
    "told",
]

NO_RECORDS = HostRecords()


def observed(
    views: Sequence[ServerView],
    records: HostRecords = NO_RECORDS,
    *,
    report: GpuReport = NO_GPUS,
    utc_offset_s: float = 0.0,
) -> Deployment:
    """The deployment that these servers make, by the records of its launch where there are any.

    `report` tells what an incomplete stop left on the GPUs; `utc_offset_s` is the host's zone, in which times
    are told.
    """
    record = records.deployment
    if record is None:
        return unlaunched(views, utc_offset_s)
    seen = Seen(record, records, parts_of(records, views), tuple(views), report, utc_offset_s)
    return next((found for rule in RULES if (found := rule(seen)) is not None), None) or standing(seen)
