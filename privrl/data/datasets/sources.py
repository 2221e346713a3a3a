"""The eight data sets: where they come from, how their files are read, and their public schemas.

Categories are those that a data set's documentation lists, whether or not they occur. Edges of
bins are taken from the documentation where it gives a range. Where it gives none they are round
numbers of the column's unit (ages in decades, amounts in steps of 1, 2, 5), and the comment says "a
choice": of people who had seen summaries of these public benchmarks, so not how a schema for
private data is made. Values outside are clipped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from privrl.data.datasets.files import Files
from privrl.data.schema import Bins, Categories, Column, Schema


@dataclass(frozen=True, eq=False)
class Source:
    """A data set before it is read.

    Attributes
    ----------
    files : Files
        What it is read from.
    read : callable
        Makes the table of the folder with the files.
    columns : mapping from str to Categories or Bins
        The schema's columns, the target last.
    citation : str
        How to cite it.
    """

    files: Files
    read: Callable[[Path], pd.DataFrame]
    columns: Mapping[str, Column]
    citation: str

    @property
    def schema(self) -> Schema:
        """The public schema."""
        return Schema(self.columns)


def _codes(first: int, last: int, *, other: bool = False) -> Categories:
    return Categories(tuple(range(first, last + 1)), other)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _texts(text: str, *, other: bool = False) -> Categories:
    return Categories(_words(text), other)


def _steps(low: float, high: float) -> Bins:
    """Return bins from zero: nothing, then steps of 1, 2, 5 from ``low`` to ``high``."""
    powers = (10.0**power for power in range(-4, 7))
    ladder = [round(digit * power, 4) for power in powers for digit in (1, 2, 5)]
    return Bins((0, *(step for step in ladder if low <= step <= high)))


# CreditCard: UCI lists the codes of X1 to X23 and gives no ranges. Codes that occur and are not
# listed (EDUCATION 0, 5, 6 and MARRIAGE 0) go to the cell of others. ID is not modelled.

_AMOUNT = _steps(1000, 1_000_000)  # New Taiwan dollars; a choice
_BALANCE = Bins((-100_000, *_AMOUNT.edges))  # a balance may be negative
_MONTHS = (1, 2, 3, 4, 5, 6)

_CREDIT_CARD: dict[str, Column] = {
    "LIMIT_BAL": _steps(10_000, 1_000_000),
    "SEX": _codes(1, 2),
    "EDUCATION": _codes(1, 4, other=True),
    "MARRIAGE": _codes(1, 3, other=True),
    "AGE": Bins.even(20, 80, 6),  # a choice
    # −1 paid, 1 to 9 months late; −2 and 0 occur and are not listed.
    **{f"PAY_{month}": _codes(-2, 9) for month in (0, 2, 3, 4, 5, 6)},
    **{f"BILL_AMT{month}": _BALANCE for month in _MONTHS},
    **{f"PAY_AMT{month}": _AMOUNT for month in _MONTHS},
    "default payment next month": _codes(0, 1),
}


def _read_credit_card(folder: Path) -> pd.DataFrame:
    path = folder / "default of credit card clients.xls"
    try:
        return pd.read_excel(path, header=1, engine="calamine")
    except ImportError as error:
        raise ImportError(
            "reading CreditCard, an .xls file, needs python-calamine: pip install 'privrl[data]'."
        ) from error


# Thyroid: ages and assays come rescaled, all within 0 to 1; the documentation says of them only
# that they are continuous. The edges are a choice.

_ASSAY = Bins((*(i / 50 for i in range(11)), 0.5, 1))
_THYROID: dict[str, Column] = {
    "age": Bins.even(0, 1, 10),
    **{
        name: _codes(0, 1)
        for name in _words(
            "sex on_thyroxine query_on_thyroxine on_antithyroid_medication sick pregnant "
            "thyroid_surgery I131_treatment query_hypothyroid query_hyperthyroid lithium goitre "
            "tumor hypopituitary psych"
        )
    },
    "TSH": _steps(0.0005, 1),
    "T3": _steps(0.005, 1),
    "TT4": _ASSAY,
    "T4U": _ASSAY,
    "FTI": _ASSAY,
    "class": _codes(1, 3),  # 3: normal
}


def _read_thyroid(folder: Path) -> pd.DataFrame:
    parts = [
        pd.read_csv(folder / name, sep=r"\s+", header=None, names=list(_THYROID))
        for name in ("ann-train.data", "ann-test.data")
    ]
    return pd.concat(parts, ignore_index=True)


# Shopper: numbers of pages, seconds, and what a web analysis tool reports. The ranges are a choice,
# but for fractions and the special day (a weight from 0 to 1, in steps of 0.2). What the codes of
# the last columns mean is not documented, nor how many there may be: hence a cell of others.

_PAGES = _steps(1, 500)
_SECONDS = _steps(10, 50_000)
_FRACTION = Bins((0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 1))
_SHOPPER: dict[str, Column] = {
    "Administrative": _PAGES,
    "Administrative_Duration": _SECONDS,
    "Informational": _PAGES,
    "Informational_Duration": _SECONDS,
    "ProductRelated": _PAGES,
    "ProductRelated_Duration": _SECONDS,
    "BounceRates": _FRACTION,
    "ExitRates": _FRACTION,
    "PageValues": _steps(1, 1000),
    "SpecialDay": Bins((0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)),
    "Month": _texts("Jan Feb Mar Apr May June Jul Aug Sep Oct Nov Dec"),
    "OperatingSystems": _codes(1, 8, other=True),
    "Browser": _codes(1, 13, other=True),
    "Region": _codes(1, 9, other=True),
    "TrafficType": _codes(1, 20, other=True),
    "VisitorType": _texts("New_Visitor Returning_Visitor Other"),
    "Weekend": Categories((False, True)),
    "Revenue": Categories((False, True)),
}


def _read_shopper(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "online_shoppers_intention.csv")


# Digit: "all input attributes are integers in the range 0..16" (optdigits.names).

_DIGIT: dict[str, Column] = {
    **{f"pixel_{row}_{column}": _codes(0, 16) for row in range(8) for column in range(8)},
    "digit": _codes(0, 9),
}


def _read_digit(folder: Path) -> pd.DataFrame:
    parts = [
        pd.read_csv(folder / name, header=None, names=list(_DIGIT))
        for name in ("optdigits.tra", "optdigits.tes")
    ]
    return pd.concat(parts, ignore_index=True)


# GermanCredit: the South German Credit (UPDATE), its columns named as the paper names them. The
# code table lists all codes, also purpose 7, which does not occur. The ranges of the three numbers
# are a choice.

_GERMAN: dict[str, Column] = {
    "status": _codes(1, 4),
    "duration": Bins((0, 6, 12, 18, 24, 36, 48, 60, 72)),  # months
    "credit_history": _codes(0, 4),
    "purpose": _codes(0, 10),
    "amount": _steps(500, 20_000),  # Deutsche Mark
    "savings": _codes(1, 5),
    "employment_duration": _codes(1, 5),
    "installment_rate": _codes(1, 4),
    "sex_marital_status": _codes(1, 4),
    "other_debtors": _codes(1, 3),
    "present_residence": _codes(1, 4),
    "property": _codes(1, 4),
    "age": Bins((18, 20, 30, 40, 50, 60, 70, 80)),
    "other_installment_plans": _codes(1, 3),
    "housing": _codes(1, 3),
    "number_credits": _codes(1, 4),
    "jobs": _codes(1, 4),
    "people_liable": _codes(1, 2),
    "telephone": _codes(1, 2),
    "foreign_worker": _codes(1, 2),
    "credit_risk": _codes(0, 1),  # 0: bad
}


def _read_german(folder: Path) -> pd.DataFrame:
    path = folder / "SouthGermanCredit.asc"
    return pd.read_csv(path, sep=" ", header=0, names=list(_GERMAN))


# Bank: categories as in bank-additional-names.txt, which lists "unknown" among them. It gives no
# ranges: those are a choice, but for "999 means client was not previously contacted".

_BANK: dict[str, Column] = {
    "age": Bins.even(10, 100, 9),
    "job": _texts(
        "admin. blue-collar entrepreneur housemaid management retired self-employed services "
        "student technician unemployed unknown"
    ),
    "marital": _texts("divorced married single unknown"),
    "education": _texts(
        "illiterate basic.4y basic.6y basic.9y high.school professional.course university.degree "
        "unknown"
    ),
    "default": _texts("no yes unknown"),
    "housing": _texts("no yes unknown"),
    "loan": _texts("no yes unknown"),
    "contact": _texts("cellular telephone"),
    "month": _texts("jan feb mar apr may jun jul aug sep oct nov dec"),
    "day_of_week": _texts("mon tue wed thu fri"),
    "duration": Bins((0, 30, 60, 120, 180, 300, 600, 1200, 3600)),  # seconds
    "campaign": Bins((1, 2, 3, 4, 5, 10, 20, 50)),  # contacts
    "pdays": Bins((0, 2, 4, 7, 14, 30, 999, 1000)),  # days
    "previous": Bins((0, 1, 2, 3, 4, 5, 10)),  # contacts
    "poutcome": _texts("failure nonexistent success"),
    "emp.var.rate": Bins.even(-5, 5, 10),  # per cent
    "cons.price.idx": Bins.even(90, 100, 10),  # 100 in the year it refers to
    "cons.conf.idx": Bins.even(-100, 100, 20),  # a balance of answers in per cent
    "euribor3m": Bins.even(0, 6, 12),  # per cent
    "nr.employed": Bins.even(4800, 5400, 12),  # thousands
    "y": _texts("no yes"),
}


def _read_bank(folder: Path) -> pd.DataFrame:
    path = folder / "bank-additional-full.csv"
    return pd.read_csv(path, sep=";", keep_default_na=False)


# Spam: percentages from 0 to 100, and lengths of at least 1 without an upper end
# (spambase.DOCUMENTATION). Where to cut is a choice: words are rare.

_PER_CENT = Bins((0, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100))
_SPAM: dict[str, Column] = {
    **{
        f"word_freq_{word}": _PER_CENT
        for word in _words(
            "make address all 3d our over remove internet order mail receive will people report "
            "addresses free business email you credit your font 000 money hp hpl george 650 lab "
            "labs telnet 857 data 415 85 technology 1999 parts pm direct cs meeting original "
            "project re edu table conference"
        )
    },
    **{f"char_freq_{char}": _PER_CENT for char in ";([!$#"},
    "capital_run_length_average": Bins((1, 2, 5, 10, 20, 50, 100, 1000)),
    "capital_run_length_longest": Bins((1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)),
    "capital_run_length_total": Bins((1, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)),
    "spam": _codes(0, 1),
}


def _read_spam(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "spambase.data", header=None, names=list(_SPAM))


# Adult: categories as in adult.names, where "?" marks what is missing. It says that persons are
# over 16 and work at least an hour a week; the other ends, and those of the capital, are a choice.
# The schema has the paper's number of attributes, 13 of 14. Which one the paper left out is not
# known: here it is fnlwgt, a row's weight in the survey, not an attribute of a person.

_ADULT: dict[str, Column] = {
    "age": Bins((17, 20, 30, 40, 50, 60, 70, 80, 90)),
    "workclass": _texts(
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay "
        "Never-worked",
        other=True,
    ),
    "education": _texts(
        "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc "
        "Assoc-acdm Bachelors Masters Prof-school Doctorate"
    ),
    "education-num": _codes(1, 16),  # the number of the education, in this order
    "marital-status": _texts(
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
        "Married-AF-spouse"
    ),
    "occupation": _texts(
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
        "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
        "Priv-house-serv Protective-serv Armed-Forces",
        other=True,
    ),
    "relationship": _texts(
        "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    ),
    "race": _texts("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
    "sex": _texts("Female Male"),
    "capital-gain": _steps(1000, 100_000),  # dollars
    "capital-loss": _steps(500, 5000),  # dollars
    "hours-per-week": Bins((1, 10, 20, 30, 40, 50, 60, 70, 100)),
    "native-country": _texts(
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) "
        "India Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica "
        "Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti "
        "Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador "
        "Trinadad&Tobago Peru Hong Holand-Netherlands",
        other=True,
    ),
    "income": _texts("<=50K >50K"),
}
_ADULT_NAMES = ["age", "workclass", "fnlwgt", *list(_ADULT)[2:]]


def _read_adult(folder: Path) -> pd.DataFrame:
    parts = [
        pd.read_csv(
            folder / name,
            header=None,
            names=_ADULT_NAMES,
            skipinitialspace=True,
            skiprows=skip,
            na_values=["?"],
            keep_default_na=False,
        )
        for name, skip in (("adult.data", 0), ("adult.test", 1))  # a comment opens the latter
    ]
    frame = pd.concat(parts, ignore_index=True)
    frame["income"] = frame["income"].str.removesuffix(".")  # as adult.test writes it
    return frame


SOURCES = {
    "CreditCard": Source(
        Files(
            "credit_card",
            {
                "default of credit card clients.xls": (
                    "30c6be3abd8dcfd3e6096c828bad8c2f011238620f5369220bd60cfc82700933"
                )
            },
            "350/default+of+credit+card+clients.zip",
        ),
        _read_credit_card,
        _CREDIT_CARD,
        "Yeh, I. (2009). Default of Credit Card Clients [Dataset]. UCI Machine Learning "
        "Repository. https://doi.org/10.24432/C55S3H",
    ),
    "Thyroid": Source(
        Files(
            "thyroid",
            {
                "ann-train.data": (
                    "3da53a156bda36cb0c97e9f4b6b111c9226c54c4aa00230de5604b787c47e3a6"
                ),
                "ann-test.data": (
                    "c649ea19416e78c7996cfaaa2a9e281cb597d4b075aaa68c494fc3e4ee3aa30b"
                ),
            },
            "102/thyroid+disease.zip",
        ),
        _read_thyroid,
        _THYROID,
        "Quinlan, R. (1986). Thyroid Disease [Dataset]. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5D010",
    ),
    "Shopper": Source(
        Files(
            "shopper",
            {
                "online_shoppers_intention.csv": (
                    "b3055ee355f59134d851d32641183cb4a8b45def7124d2f50442a042f358e0d9"
                )
            },
            "468/online+shoppers+purchasing+intention+dataset.zip",
        ),
        _read_shopper,
        _SHOPPER,
        "Sakar, C. & Kastro, Y. (2018). Online Shoppers Purchasing Intention Dataset [Dataset]. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C5F88Q",
    ),
    "Digit": Source(
        Files(
            "digits",
            {
                "optdigits.tra": "e1b683cc211604fe8fd8c4417e6a69f31380e0c61d4af22e93cc21e9257ffedd",
                "optdigits.tes": "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
            },
            "80/optical+recognition+of+handwritten+digits.zip",
        ),
        _read_digit,
        _DIGIT,
        "Alpaydin, E. & Kaynak, C. (1998). Optical Recognition of Handwritten Digits [Dataset]. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C50P49",
    ),
    "GermanCredit": Source(
        Files(
            "german_credit",
            {
                "SouthGermanCredit.asc": (
                    "5f363343f356ca38a0236baab849e472846399b2176ccc5bd686483dd8a7562f"
                )
            },
            "573/south+german+credit+update.zip",
        ),
        _read_german,
        _GERMAN,
        "Groemping, U. (2019). South German Credit (UPDATE) [Dataset]. UCI Machine Learning "
        "Repository. https://doi.org/10.24432/C5QG88",
    ),
    "Bank": Source(
        Files(
            "bank",
            {
                "bank-additional-full.csv": (
                    "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8"
                )
            },
            "222/bank+marketing.zip",
        ),
        _read_bank,
        _BANK,
        "Moro, S., Rita, P. & Cortez, P. (2014). Bank Marketing [Dataset]. UCI Machine Learning "
        "Repository. https://doi.org/10.24432/C5K306",
    ),
    "Spam": Source(
        Files(
            "spam",
            {"spambase.data": "b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12"},
            "94/spambase.zip",
        ),
        _read_spam,
        _SPAM,
        "Hopkins, M., Reeber, E., Forman, G. & Suermondt, J. (1999). Spambase [Dataset]. UCI "
        "Machine Learning Repository. https://doi.org/10.24432/C53G6X",
    ),
    "Adult": Source(
        Files(
            "adult",
            {
                "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            },
            "2/adult.zip",
        ),
        _read_adult,
        _ADULT,
        "Becker, B. & Kohavi, R. (1996). Adult [Dataset]. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5XW20",
    ),
}
