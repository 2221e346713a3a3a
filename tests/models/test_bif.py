import re
from importlib import import_module

import numpy as np
import pytest

pytest.importorskip("networkx", reason="no networkx: pip install 'privrl[models]'")
pytest.importorskip("opt_einsum", reason="no opt_einsum: pip install 'privrl[models]'")

from hypothesis import given
from hypothesis import strategies as st

from privrl.data.schema import Bins, Categories, Schema
from privrl.models.bayes_net.network import BayesNet, escape

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ESCAPED = re.compile(r"_x([0-9a-f]*)_")
AWKWARD = [
    "",
    "<=50K",
    "[0, 10)",
    "a b",
    "a,b",
    "_x20_",
    "_x",
    "x",
    "_",
    "__x",
    "7",
    "é",
    "a}",
    "\n",
]


def unescape(word):
    """Return the text that a word stands for, as the format's description says."""
    return ESCAPED.sub(lambda match: chr(int(match[1], 16)) if match[1] else "", word)


@pytest.mark.parametrize("text", [*AWKWARD, "property", "Default", "table", "network"])
def test_awkward_texts_become_words_and_come_back(text):
    assert WORD.fullmatch(escape(text))
    assert unescape(escape(text)) == text


@given(st.text(alphabet=st.sampled_from("_x0125aft; é")) | st.text())
def test_every_text_becomes_a_word_and_comes_back(text):
    # Since every text comes back, no two texts are one word.
    assert WORD.fullmatch(escape(text))
    assert unescape(escape(text)) == text


def test_the_documented_example():
    assert escape("<=50K") == "_x3c__x3d_50K"
    assert escape("other_debtors") == "other_debtors"


def read_back(text, folder):
    path = folder / "net.bif"
    path.write_text(text, encoding="utf-8")
    return import_module("oracle_pyagrum").pyagrum.loadBN(str(path))


@pytest.mark.needs("pyagrum")
def test_another_library_reads_the_same_network(tmp_path, rng):
    schema = Schema(
        {
            "property": Categories(tuple(AWKWARD)),
            "age in years": Bins((0, 10, 20.5, 100), missing=True),
            "1st": Categories(("<=50K", ">50K"), other=True),
            "table": Categories((1, "1", 2, -3)),
        }
    )
    parents = {
        "property": ("table",),
        "age in years": (),
        "1st": ("age in years", "property"),
        "table": ("age in years",),
    }
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    tables = {
        node: rng.dirichlet(np.ones(sizes[node]), int(np.prod([sizes[p] for p in own], dtype=int)))
        for node, own in parents.items()
    }
    net = BayesNet(parents, schema, tables)
    other = read_back(net.to_bif(), tmp_path)
    assert {unescape(name) for name in other.names()} == set(parents)
    for node, own in parents.items():
        variable = other.variable(escape(node))
        labels = schema.columns[node].labels
        assert tuple(map(unescape, variable.labels())) == labels
        table = other.cpt(escape(node))
        for row, values in enumerate(tables[node]):
            cells = np.unravel_index(row, [sizes[p] for p in own]) if own else ()
            given_ = {
                escape(p): escape(schema.columns[p].labels[c])
                for p, c in zip(own, cells, strict=True)
            }
            # What was read is in single precision.
            found = np.array(table[given_].tolist() if given_ else table.tolist())
            np.testing.assert_allclose(found, values, atol=1e-6)


@pytest.mark.needs("pyagrum")
def test_a_file_with_rows_exchanged_is_noticed(tmp_path):
    # The comparison above must be able to fail.
    schema = Schema({"a": Categories(("u", "v")), "b": Categories(("u", "v"))})
    net = BayesNet(
        {"a": (), "b": ("a",)}, schema, {"a": [[0.5, 0.5]], "b": [[0.9, 0.1], [0.2, 0.8]]}
    )
    wrong = net.to_bif().replace("(u)", "(w)").replace("(v)", "(u)").replace("(w)", "(v)")
    other = read_back(wrong, tmp_path)
    assert abs(other.cpt("b")[{"a": "u"}][0] - 0.9) > 0.1


@pytest.fixture
def rng():
    return np.random.default_rng(20)
