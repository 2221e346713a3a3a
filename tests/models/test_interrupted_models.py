"""Whatever fails at any line of a fit: nothing is released unpaid, and what was paid is told."""

import linecache
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from interrupts import Interrupter
from sklearn.exceptions import NotFittedError

from privrl.accounting import ApproxDP, PureDP, RdpAccountant, RenyiDP, releases
from privrl.data.schema import Categories, Schema
from privrl.models import PrivateClassifier, discretise, histogram
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.logistic_regression.classifier import PrivateLogisticRegression
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

SCHEMA = Schema({name: Categories(("a", "b")) for name in "xyz"})
FRAME = pd.DataFrame({"x": list("ab" * 20), "y": list("aabb" * 10), "z": list("abbb" * 10)})
TARGET = ApproxDP(5.0, 1e-5)
Fit = Callable[[RdpAccountant], Any]


def histograms(accountant: RdpAccountant) -> Any:
    column = SCHEMA.columns["x"]
    return histogram(FRAME["x"], column, target=RenyiDP(2, 1), rng=1, accountant=accountant)


def naive_bayes(accountant: RdpAccountant) -> Any:
    model = PrivateNaiveBayes(SCHEMA, classes="z", target=TARGET, random_state=1)
    vars(accountant)["fitted"] = model
    return model.fit(FRAME[["x", "y"]], FRAME["z"], accountant=accountant)


def logistic_regression(accountant: RdpAccountant) -> Any:
    model = PrivateLogisticRegression(SCHEMA, classes="z", target=TARGET, random_state=1)
    vars(accountant)["fitted"] = model
    return model.fit(FRAME[["x", "y"]], FRAME["z"], accountant=accountant)


def either(accountant: RdpAccountant, model: Any) -> Any:
    made = PrivateClassifier(SCHEMA, classes="z", target=TARGET, model=model, random_state=1)
    vars(accountant)["fitted"] = made
    return made.fit(FRAME[["x", "y"]], FRAME["z"], accountant=accountant)


def chosen_naive_bayes(accountant: RdpAccountant) -> Any:
    return either(accountant, "naive-bayes")


def chosen_logistic_regression(accountant: RdpAccountant) -> Any:
    return either(accountant, "logistic-regression")


def given_net(accountant: RdpAccountant) -> Any:
    parents: dict[str, tuple[str, ...]] = {"x": (), "y": ("x",), "z": ("x",)}
    return PrivateBayesNet(parents=parents, schema=SCHEMA, target=TARGET).fit(
        FRAME, 1, accountant=accountant
    )


def chosen_net(accountant: RdpAccountant) -> Any:
    return PrivateBayesNet(parents="private", schema=SCHEMA, target=TARGET).fit(
        FRAME, 1, accountant=accountant
    )


def net_in_one_round(accountant: RdpAccountant) -> Any:
    parents: dict[str, tuple[str, ...]] = {"x": (), "y": ("x",), "z": ()}
    model = PrivateBayesNet(parents=parents, schema=SCHEMA, target=PureDP(1e-3))
    return model.fit(FRAME, 1, accountant=accountant)


def bins(accountant: RdpAccountant) -> Any:
    frame = pd.DataFrame({"x": np.arange(40.0)})
    return discretise(frame, {"x": (0, 40)}, target=PureDP(1.0), rng=1, accountant=accountant)


FITS = [
    histograms, naive_bayes, chosen_naive_bayes, logistic_regression, chosen_logistic_regression,
    given_net, chosen_net, net_in_one_round, bins,
]  # fmt: skip


@pytest.mark.few(9)
@pytest.mark.parametrize("fit", FITS)
def test_no_setting_of_numpy_ends_a_fit_after_the_charge(fit: Fit) -> None:
    """What was released was lost if an estimate of it had a density of 0."""
    accountant = RdpAccountant()
    try:
        with np.errstate(all="raise"):
            fit(accountant)
    except FloatingPointError:  # of a calibration
        assert accountant.relation is None
    else:
        assert accountant.relation is not None


class Gate:
    """See whether a release was charged before it was drawn."""

    def __init__(self) -> None:
        self.accountant = RdpAccountant()
        self.released_something = False

    def charged(self, cost: Any) -> None:
        """Do nothing."""

    def released(self, who: Any, cost: Any, data: Any, rng: Any, draw: Any) -> Any:
        assert len(self.accountant.journal) == 1, "a release is unpaid"
        self.released_something = True
        return draw(data, rng)


def interrupted(fit: Fit, first: Interrupter) -> None:
    seen = Gate()
    with releases.watched_by(seen):
        raised = first(lambda: fit(seen.accountant))
    if first.at is None:
        assert raised is None
        assert seen.released_something
    elif seen.released_something and raised is not None:
        notes = getattr(raised, "__notes__", [])
        told = any("charged for this release" in note for note in notes)
        model = vars(seen.accountant).get("fitted")
        assert told or (_is_fitted(model) if model is not None else _is_returning(raised))


def _is_fitted(model: Any) -> bool:
    """Whether nothing was lost: what was released is in the model."""
    fitted = getattr(model, "classifier_", model)
    if isinstance(fitted, PrivateClassifier):  # it has not chosen
        return False
    try:
        return bool(fitted.to_dict())
    except NotFittedError:
        return False


def _is_returning(raised: BaseException) -> bool:
    """Whether it was raised where a release had been made, and was only to be returned."""
    *_, (frame, line) = (
        each
        for each in traceback.walk_tb(raised.__traceback__)
        if each[0].f_globals["__name__"].startswith("privrl.")
    )
    return linecache.getline(frame.f_code.co_filename, line).strip().startswith("return ")


def interrupt_everywhere(fit: Fit, every: int) -> None:
    whole = Interrupter(None, each=False)
    interrupted(fit, whole)
    assert whole.seen > 100
    for at in range(1, whole.seen + 1, every):
        interrupted(fit, Interrupter(at, each=False))


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITS[:3])
def test_an_interrupt_at_every_fifth_line_of_a_fit(fit: Fit) -> None:
    interrupt_everywhere(fit, 5)


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITS)
def test_an_interrupt_at_any_line_of_a_fit(fit: Fit) -> None:
    interrupt_everywhere(fit, 1)


def test_a_warning_that_is_an_error_loses_no_model(recwarn: pytest.WarningsRecorder) -> None:
    """What was released is mostly of other values: that is told, and the model returned."""
    schema = Schema({name: Categories(("a", "b"), other=True) for name in "xyz"})
    frame = pd.DataFrame({name: ["c"] * 200 for name in "xyz"})
    net = PrivateBayesNet(parents={"x": (), "y": (), "z": ()}, schema=schema, target=TARGET)
    accountant = RdpAccountant()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        released = net.fit(frame, np.random.default_rng(1), accountant=accountant)
    assert len(accountant.journal) == 1
    assert released.parents["x"] == ()
    assert any("is in the cell of other values" in str(each.message) for each in recwarn)
