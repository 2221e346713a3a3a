"""The Bayesian networks over three of the data sets."""

_NETWORKS: dict[str, dict[str, tuple[str, ...]]] = {
    "Adult": {
        "age": (),
        "sex": (),
        "education": ("age",),
        "occupation": ("age", "sex", "education"),
        "capital-gain": ("sex", "education", "occupation"),
        "capital-loss": ("sex", "occupation", "capital-gain"),
        "income": ("occupation", "capital-gain", "capital-loss"),
    },
    "Bank": {
        "month": (),
        "day_of_week": (),
        "housing": ("month",),
        "pdays": ("housing", "month"),
        "poutcome": ("housing", "pdays"),
        "previous": ("poutcome",),
        "contact": ("previous", "month"),
        "campaign": ("day_of_week", "month"),
        "duration": ("housing", "contact", "campaign"),
        "y": ("poutcome", "duration", "month"),
    },
    "GermanCredit": {
        "housing": (),
        "property": ("housing",),
        "age": ("housing",),
        "amount": ("property",),
        "other_debtors": ("property",),
        "sex_marital_status": ("amount",),
        "purpose": ("amount",),
        "installment_rate": ("amount",),
        "duration": ("amount", "installment_rate"),
        "people_liable": ("sex_marital_status",),
        "foreign_worker": ("duration",),
        "number_credits": ("age",),
        "credit_history": ("number_credits",),
        "other_installment_plans": ("credit_history",),
    },
}


def networks() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, for three data sets, each node's parents; parents come before children.

    The structures are those of the experiments of Ponnoprat, *Dirichlet Mechanism for
    Differentially Private KL Divergence Minimization* (TMLR), as its companion repository
    ``donlapark/Dirichlet-Mechanism`` on GitHub has them (commit ``5b06f4b24fd2``, notebook
    ``experiments/bayesian_networks.ipynb``). How they were chosen is not said there; they are taken
    as public.

    Returns
    -------
    dict
        For ``"Adult"``, ``"Bank"`` and ``"GermanCredit"``: the parents of each node, all of them
        columns of the data set's schema.
    """
    return {name: dict(parents) for name, parents in _NETWORKS.items()}
