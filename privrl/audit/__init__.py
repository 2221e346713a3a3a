"""Audits: does a mechanism, a sampler or a whole pipeline keep what it claims?"""

from privrl.audit.black_box import (
    AuditResult,
    audit_dirichlet,
    audit_mechanism,
    audit_scores,
)

__all__ = ["AuditResult", "audit_dirichlet", "audit_mechanism", "audit_scores"]
