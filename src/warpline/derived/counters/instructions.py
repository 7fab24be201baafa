"""Names of metrics with a value per instruction."""

from __future__ import annotations

STALL = "smsp__pcsamp_warps_issue_stalled_"
EXECUTED = "inst_executed"
