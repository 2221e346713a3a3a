"""Audits of the privacy guarantees of mechanisms, samplers and whole pipelines."""

from privrl.audit.black_box import audit_dirichlet, audit_mechanism, audit_scores
from privrl.audit.laws import law_test
from privrl.audit.replay import audit_replay
from privrl.audit.separations import separation

__all__ = [
    "audit_dirichlet",
    "audit_mechanism",
    "audit_replay",
    "audit_scores",
    "law_test",
    "separation",
]
