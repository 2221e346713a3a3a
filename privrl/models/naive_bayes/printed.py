"""Naive Bayes as DKL prints it, for the figure that compares the two."""

from typing import ClassVar, NoReturn

from privrl.files.shown import shown
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes


class PrintedNaiveBayes(PrivateNaiveBayes):
    """Draw for each value of a feature its distribution over the classes, by DKL's Algorithm 1.

    `PrivateNaiveBayes` draws for each class its distribution over the values, which is what naive
    Bayes multiplies.

    Parameters
    ----------
    schema, classes, target, mechanism, **parameters
        As for `PrivateNaiveBayes`; the mechanism has to be ``"dkl"``.
    """

    _by_value: ClassVar[bool] = True

    def check_parameters(self) -> None:
        """See `PrivateNaiveBayes.check_parameters`."""
        super().check_parameters()
        if self.mechanism != "dkl":
            raise ValueError(
                f"mechanism must be 'dkl', as in the paper, got {shown(self.mechanism)}."
            )

    def to_dict(self) -> NoReturn:
        """Refuse: a file would be read as one of the other classifier."""
        raise ValueError("what the paper prints is not saved; fit PrivateNaiveBayes.")
