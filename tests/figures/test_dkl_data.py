"""DKL's experiments on data, at their quick sizes: the paper's claims, and where they fail.

The data sets are looked for in the folder named by PRIVRL_DATA, else in ``../shared/uci`` beside
the repository; the tests that need them say so when they are skipped.
"""

import re

import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from needs import COLLECTION, needs_collection
from picture_checks import check_caption, check_picture

from privrl.data.datasets import networks
from privrl.experiments.figures import FIGURES, dkl_data, dkl_networks
from privrl.experiments.figures.dkl_fits import GAUSSIAN, GAUSSIAN_SD, LAPLACE, LAPLACE_SD
from privrl.experiments.uci.jobs import AUTO, DKL, GOHARI, NONE, PRINTED, UNIFORM
from privrl.experiments.uci.run import means

LOSSES, ACCURACIES, LIKELIHOODS = (
    ("dkl-fig4", "dkl-fig9"),
    ("dkl-fig5", "dkl-fig10"),
    ("dkl-fig7", "dkl-fig11"),
)
IDS = ("dkl-table1", *LOSSES, *ACCURACIES, *LIKELIHOODS)


@pytest.fixture(scope="module")
def tables():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVRL_DATA", str(COLLECTION))
        return {name: FIGURES[name].compute(True) for name in IDS}


@pytest.mark.slow
@needs_collection
@pytest.mark.parametrize("name", IDS)
def test_picture_and_caption(tables, name) -> None:
    check_picture(FIGURES[name], tables[name])
    check_caption(FIGURES[name], tables[name])
    assert FIGURES[name].data


# Table 1 ----------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_collection
def test_data_sets_are_the_printed_ones(tables) -> None:
    table = tables["dkl-table1"]
    assert "nothing differs" in dkl_data._caption_table(table)
    # A table of other data is told apart, in every number that is printed.
    for column, change in (("instances", 1), ("attributes", -1), ("classes", 1), ("rarest", 0.02)):
        other = table.copy()
        other.loc[other.data == "Adult", column] += change
        (difference,) = dkl_data._differences(other)
        assert difference.startswith("Adult has")


# Naive Bayes ------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_collection
@pytest.mark.parametrize("name", LOSSES)
def test_the_paper_s_order_is_that_of_the_floors(tables, name) -> None:
    """Two sets, three budgets, two splits; which noise is cut where decides who wins."""
    wide = means(tables[name], "cross_entropy")
    assert (wide[DKL] < wide[[GAUSSIAN, LAPLACE]].min(axis=1)).all()
    raised = wide[[GAUSSIAN_SD, LAPLACE_SD]].min(axis=1)
    assert (raised < wide[DKL]).mean() > 0.6
    assert (wide[AUTO] < wide[DKL]).all()


@pytest.mark.slow
@needs_collection
@pytest.mark.parametrize("name", LOSSES)
def test_as_printed_it_is_no_naive_bayes_however_little_noise(tables, name) -> None:
    wide = means(tables[name], "cross_entropy")
    for data in wide.index.unique("data"):
        losses = wide.loc[data]
        assert losses[PRINTED].iloc[-1] > 2 * losses[UNIFORM].iloc[-1]
        assert losses[DKL].iloc[-1] < losses[DKL].iloc[0]


@pytest.mark.slow
@needs_collection
def test_gohari_et_al_lose_more_than_algorithm_1(tables) -> None:
    wide = means(tables["dkl-fig9"], "cross_entropy")
    assert (wide[DKL] < wide[GOHARI]).all()
    assert GOHARI not in set(tables["dkl-fig4"].mechanism)  # it has no Rényi bound


@pytest.mark.slow
@needs_collection
@pytest.mark.parametrize(("first", "second"), list(zip(LOSSES, ACCURACIES, strict=True)))
def test_losses_and_accuracies_are_of_the_same_cells(tables, first, second) -> None:
    pd.testing.assert_frame_equal(tables[first], tables[second].drop(columns="commonest"))
    assert (tables[second]["commonest"] > 0.5).all()
    assert tables[first] is not tables[second]
    wide = means(tables[second], "accuracy")
    assert (wide[NONE] > wide[UNIFORM]).all()
    picture = FIGURES[second].draw(tables[second])
    lines = {str(line.get_label()): line for line in picture.axes[0].lines}
    first_data = tables[second].data.iloc[0]
    shown = tables[second].commonest[tables[second].data == first_data].mean()
    assert lines["always the commonest class"].get_ydata()[0] == pytest.approx(shown)
    names = [str(each.get_label()) for each in picture.axes[0].containers]
    assert NONE in names
    assert UNIFORM not in names


# Networks ---------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_collection
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_likelihoods_are_greater_not_less(tables, name) -> None:
    """Section 5.2 says that those of Dirichlet draws are less."""
    wide = means(tables[name], "log_likelihood")
    small = wide[wide.index.get_level_values("epsilon") < 1]
    assert (small[DKL] > small[[GAUSSIAN, LAPLACE]].max(axis=1)).all()
    assert (small[[GAUSSIAN_SD, LAPLACE_SD]].max(axis=1) > small[DKL]).all()
    assert (wide[AUTO] > wide[DKL]).all()
    assert (wide[NONE] > wide.drop(columns=NONE).max(axis=1)).all()


@pytest.fixture(scope="module")
def drawn():
    return FIGURES["dkl-fig6"].compute(True)


@pytest.mark.slow
def test_networks_picture_and_caption(drawn) -> None:
    check_picture(FIGURES["dkl-fig6"], drawn)
    caption = check_caption(FIGURES["dkl-fig6"], drawn)
    # As counted in the published code.
    for words in ("Adult 7 nodes, 13", "Bank 10 nodes, 16", "GermanCredit 14 nodes, 14"):
        assert words in caption


def test_networks_have_an_arrow_for_every_parent(drawn) -> None:
    picture = FIGURES["dkl-fig6"].draw(drawn)
    for axes, parents in zip(picture.axes, networks().values(), strict=True):
        at = {text.get_text(): text for text in axes.texts if text.get_text()}
        words = {
            node: re.sub(r"([_-])", lambda m: "-\n" if m[0] == "-" else "\n", node)
            for node in parents
        }
        places = {node: at[words[node]].get_position() for node in parents}
        arrows = {(arrow.xyann, arrow.xy) for arrow in axes.texts if hasattr(arrow, "xyann")}
        assert arrows == {(places[p], places[n]) for n, own in parents.items() for p in own}
        for node, own in parents.items():
            assert all(places[parent][1] > places[node][1] for parent in own)


def test_arrows_go_round_nodes_in_the_way() -> None:
    assert dkl_networks._bend((0, 0), (0, -2), []) == 0
    assert dkl_networks._bend((0, 0), (0, -2), [(0, -1)]) != 0
    assert dkl_networks._bend((0, 0), (0, -2), [(0, -1), (-0.35, -1)]) == -dkl_networks._bend(
        (0, 0), (0, -2), [(0, -1), (0.35, -1)]
    )
