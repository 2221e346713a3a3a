"""Audits: whether a mechanism, a sampler or a whole pipeline keeps what it claims."""

from privrl.audit.black_box import AuditResult, audit_dirichlet, audit_mechanism, audit_scores
from privrl.audit.laws import (
    DirichletLaw,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    GaussianLaw,
    LaplaceLaw,
    Law,
    LawResult,
    draws_needed,
    law_test,
)
from privrl.audit.replay import ReplayResult, audit_replay
from privrl.audit.separations import SeparationResult, separation

__all__ = [
    "AuditResult",
    "DirichletLaw",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "GaussianLaw",
    "LaplaceLaw",
    "Law",
    "LawResult",
    "ReplayResult",
    "SeparationResult",
    "audit_dirichlet",
    "audit_mechanism",
    "audit_replay",
    "audit_scores",
    "draws_needed",
    "law_test",
    "separation",
]
