"""Audits of mechanisms, samplers and whole pipelines: do they keep what they claim."""

from privrl.audit.black_box import (
    AuditResult,
    audit_dirichlet,
    audit_mechanism,
    audit_scores,
)
from privrl.audit.replay import ReplayResult, audit_replay

__all__ = [
    "AuditResult",
    "ReplayResult",
    "audit_dirichlet",
    "audit_mechanism",
    "audit_replay",
    "audit_scores",
]
