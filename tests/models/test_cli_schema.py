"""From a file and its documentation to a schema, by hand and in few steps; no record is shown."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import said

from privrl.data.records import read_records
from privrl.data.schema import (
    Bins,
    Categories,
    Schema,
    read_documentation,
    read_header,
    write_template,
)
from privrl.data.schema.documentation import parse_categories
from privrl.data.schema.headers import NoHeader
from privrl.data.schema.templates import merged, template

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from typer.main import get_command
from typer.testing import CliRunner

from privrl.cli import app

RUNNER = CliRunner()
NAMES = """\
| Census data. | Convert Unknown to "?"

>50K, <=50K.

age: continuous.
workclass: Private, State-gov.   | and no others
education-num: continuous.
member: true, false.
children: 0, 1, 2.
code: 01, 02.
town: discrete 40.
Note: this is a sentence.
id: ignore.
"""
SECRET = "Xq7secret"


def run(line: str):
    return RUNNER.invoke(app, shlex.split(line), env={"COLUMNS": "80", "TERM": "dumb"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A documentation, and records of a few of its columns, without a header and with one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVRL_LEDGER", str(tmp_path / "ledger.sqlite"))
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.integers(100)}, {rng.choice(['Private', 'State-gov', '?'])}, "
        f"{rng.choice(['>50K', '<=50K'])}"
        for _ in range(200)
    ]
    Path("people.data").write_text("\n".join(rows) + "\n")
    Path("people.csv").write_text("\n".join(["age,workclass,income", *rows]) + "\n")
    Path("people.names").write_text(
        ">50K, <=50K.\nage: continuous.\nworkclass: Private, State-gov.\n"
    )
    return tmp_path


# Documentation ------------------------------------------------------------------------------------


def test_documentation_is_read_as_uci_writes_it(tmp_path: Path) -> None:
    (tmp_path / "a.names").write_text(NAMES)
    found = read_documentation(tmp_path / "a.names")
    assert found.continuous == ("age", "education-num")
    assert found.categories == {
        "workclass": ("Private", "State-gov"),
        "member": (True, False),
        "children": (0, 1, 2),
        "code": ("01", "02"),  # no number is written so
        "town": (),
        "class": (">50K", "<=50K"),
    }
    assert found.names[-1] == found.classes == "class"
    assert "id" not in found.names
    assert "Note" not in found.names


def test_documentation_takes_the_names_of_the_file(tmp_path: Path) -> None:
    """As other people's copies of the same file write them; the classes have any name."""
    (tmp_path / "a.names").write_text(NAMES)
    found = read_documentation(tmp_path / "a.names")
    own = found.named(["age", "education.num", "income"])
    assert own.continuous == ("age", "education.num")
    assert own.categories == {"income": (">50K", "<=50K")}
    assert own.classes == "income"
    unknown = found.named(["age", "income", "wage"])  # which of them are the classes?
    assert unknown.names == ("age",)
    assert unknown.classes is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got none"),
        ("nothing of the kind\n", "--categories"),
        ("Note: this is a sentence.\n", "got none"),
        ("age: continuous.\nage: 1, 2.\n", "line 2"),
    ],
)
def test_what_is_no_documentation(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.names").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_documentation(tmp_path / "a.names")


@pytest.mark.parametrize(
    "records",
    [
        "name: Anna, illness: {}, town: Bonn\nname: Bert, illness: none, town: Bonn\n",
        "{}: ill, Bonn\nBert: well, Bonn\n",
        "{}: ill, Bonn.; x\n",
        "id;note\n1;{}: tired, pale.\n",
        "2020-01-02 10:15:00,{},Bonn\n2020-01-02 10:16:00,well,Bonn\n",
        "time,ward,result\n10:15,A,{}\n10:16,B,well\n",
        "{} 10:15, ill, well.\n",
        '"{}: ill, well.",5\n',
        "12: {}, well.\n",
        "name,note\n{},see also: x, y.\n",
        "yes, no.\n{}, well.\nage: continuous.\n",
        "age: continuous.\n{}, well\n",
    ],
)
def test_records_are_no_documentation_and_are_not_shown(folder: Path, records: str) -> None:
    """Of a file of records with colons, parts of records were written as names and values."""
    Path("records.txt").write_text(records.format(SECRET))
    Path("named.CSV").write_text(f"age: continuous.\n{SECRET}: a, b.\n")
    for name in ("records.txt", "named.CSV"):
        found = run(f"schema --columns age,name --from-documentation {name}")
        assert found.exit_code == 2, found.output
        assert "must have lines such as 'workclass: Private, State-gov.'" in said(found)
        assert SECRET not in found.output
        assert "Bonn" not in found.output
    assert not Path("schema.toml").exists()


def test_categories_from_the_command_line() -> None:
    assert parse_categories(["job=clerk, smith", "n=1,2"]) == {
        "job": ("clerk", "smith"),
        "n": (1, 2),
    }
    for text in ("job", "job=", "=a,b"):
        with pytest.raises(ValueError, match="categories must be like 'job=clerk,smith,none'"):
            parse_categories([text])
    with pytest.raises(ValueError, match="'a' twice"):
        parse_categories(["a=1,2", "a=3,4"])


# The first line -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{SECRET};job;1", "';' in it 2 times: --separator ';'"),
        (f"{SECRET}\tjob", "tab in it 1 times: --separator tab"),
        (f"{SECRET},,b", "field 2 of 3 is empty"),
        (f"{SECRET},b,{SECRET}", "its fields 1 and 3 are the same"),
        (f"39,{SECRET},77516,1e3", "3 of its 4 fields are numbers"),
    ],
)
def test_a_line_that_is_no_header_is_refused_and_not_shown(tmp_path, line, message) -> None:
    (tmp_path / "p.csv").write_text(f"{line}\n1,2,3\n")
    with pytest.raises(ValueError, match=message) as caught:
        read_header(tmp_path / "p.csv")
    assert SECRET not in str(caught.value)
    assert isinstance(caught.value, NoHeader) == ("numbers" in message)
    out = tmp_path / "s.toml"
    result = run(f"schema --csv {tmp_path / 'p.csv'} --out {out}")
    assert result.exit_code == 2
    assert SECRET not in result.output
    assert not out.exists()


@pytest.mark.parametrize("line", [f"clerk,,{SECRET}", "clerk,Berlin,clerk"])
def test_nothing_is_told_of_a_record_whose_fields_are_empty_or_the_same(tmp_path, line) -> None:
    (tmp_path / "p.csv").write_text(f"{line}\nsmith,healthy,Rome\n")
    result = run(f"schema --csv {tmp_path / 'p.csv'} --out {tmp_path / 's.toml'}")
    assert result.exit_code == 2
    assert "may be a record" in " ".join(result.output.split())
    assert "empty" not in result.output
    assert "the same" not in result.output


@pytest.mark.parametrize(
    "options", ["", "--columns job", "--numeric age=0:100", "--missing all", "--log"]
)
def test_a_record_of_texts_is_no_header(tmp_path: Path, options: str) -> None:
    """Only a line with a name that the user typed is taken for names, or where --header says so."""
    (tmp_path / "p.csv").write_text(f"clerk,{SECRET},Berlin\nsmith,healthy,Rome\n")
    out = tmp_path / "s.toml"
    command = f"schema --csv {tmp_path / 'p.csv'} --out {out} {options}"
    result = run(command)
    assert result.exit_code == 2
    assert "may be a record" in said(result)
    assert not any(word in result.output for word in (SECRET, "clerk", "Berlin"))
    assert not out.exists()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [SECRET, f'{SECRET}"'])
def test_a_quote_in_a_header_reaches_no_record(tmp_path: Path, end: str, last: str) -> None:
    """A quote that is not closed in the first line must not make a name of the lines below it."""
    path, out = tmp_path / "p.csv", tmp_path / "s.toml"
    path.write_bytes(end.join(('age,"job', "12,clerk", f"33,{last}", "")).encode())
    result = run(f"schema --csv {path} --out {out} --numeric age=0:100")
    assert result.exit_code == 2
    assert "its first line cannot be read as fields" in said(result)
    assert SECRET not in result.output
    assert not out.exists()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_header_ends_with_its_line(tmp_path: Path, end: str) -> None:
    (tmp_path / "p.csv").write_bytes(end.join(("age,job", SECRET, "")).encode())
    assert read_header(tmp_path / "p.csv") == ("age", "job")


@pytest.mark.parametrize("option", ["--header", "--columns job", "--missing job"])
def test_a_header_is_known_by_a_name_that_was_typed(tmp_path: Path, option: str) -> None:
    (tmp_path / "p.csv").write_text("job,town\nsmith,Rome\n")
    out = tmp_path / "s.json"
    result = run(f"schema --csv {tmp_path / 'p.csv'} --out {out} {option}")
    assert result.exit_code == 0, result.output
    assert "job" in json.loads(out.read_text())["columns"]


def test_a_network_never_suggests_a_field_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("job,diagnosis HIV\na,b\n")
    Schema({"job": Categories(("a", "b")), "diagnosis": Categories(("a", "b"))}).save(
        tmp_path / "s.json"
    )
    result = run(f"bayes-net {tmp_path / 'p.csv'} --schema {tmp_path / 's.json'}")
    assert result.exit_code == 2
    assert "'diagnosis' absent" in said(result)
    assert "HIV" not in result.output


def test_blanks_around_names_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("age, job ,x\n")
    assert read_header(tmp_path / "p.csv") == ("age", "job", "x")


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (f"{SECRET};b", "--separator ';'"),
        (f"{SECRET},3", "(echo age,job; cat "),
        (f"{SECRET},3,x", "write the columns' names, in their order, above it"),
        (f"age,job {SECRET}", "name them as the schema does"),
        (f"age,{SECRET}", "name them as the schema does"),
        (f"{SECRET},jobb", "--separator says what is between fields"),
    ],
)
def test_records_without_their_columns_say_what_to_write(tmp_path, first, message) -> None:
    schema = Schema({"age": Bins((0, 1, 2)), "job": Categories(("a", "b"))})
    (tmp_path / "p.csv").write_text(f"{first}\n")
    with pytest.raises(ValueError, match="must have all columns") as caught:
        read_records(tmp_path / "p.csv", schema)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


# A schema file ------------------------------------------------------------------------------------


def test_what_is_filled_in_stays(tmp_path: Path) -> None:
    """With its comments; and what is added is what the options say."""
    path = tmp_path / "s.toml"
    write_template(path, ["age", "job", "town"], categories={"job": ("clerk", "smith")})
    path.write_text(path.read_text().replace('"smith"', '"smith" # of any metal\n'))
    again = write_template(
        path,
        ["age", "job", "wage"],
        numeric={"age": (0, 100), "wage": None},
        categories={"job": ("other",)},
        rest=["age", "job"],
    )
    assert again.unfilled == ("town", "wage")
    assert again.unbounded == ("wage",)
    assert again.kept == ("job",)
    columns = tomllib.loads(path.read_text())["columns"]
    assert columns["job"] == {"categories": ["clerk", "smith"], "other": True}
    assert columns["age"]["edges"][1] == 10
    assert columns["age"]["missing"]
    assert list(columns) == ["age", "job", "town", "wage"]
    assert columns["wage"] == {"edges": [], "missing": False}
    before = path.read_text()
    write_template(path, ["age", "job", "wage"])
    assert path.read_text() == before


def test_comments_stay_where_columns_do_not_change(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('# mine\n[columns.job]\ncategories = ["a", # first\n"b"]\n\n[columns.age]\n'
                    "categories = []\n")  # fmt: skip
    write_template(path, ["age", "size"], numeric={"age": (0, 100)}, categories={"size": (1, 2)})
    text = path.read_text()
    assert text.startswith('# mine\n[columns.job]\ncategories = ["a", # first\n"b"]\n')
    assert Schema.load(path).names == ("job", "age", "size")


def test_a_file_laid_out_otherwise_holds_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('columns = {job = {categories = ["a", "b"]}, age = {categories = []}}\n')
    write_template(path, ["age"], numeric={"age": (0, 100)})
    assert Schema.load(path) == Schema(
        {"job": Categories(("a", "b")), "age": Bins.even(0, 100, 10)}
    )
    path = tmp_path / "s.json"
    path.write_text('{"columns": {"job": {"categories": []}}}')
    write_template(path, ["job"], categories={"job": ("a", "b")})
    assert Schema.load(path) == Schema({"job": Categories(("a", "b"))})


@pytest.mark.parametrize("text", ["filled in", "person = 'p'\n", "columns = 3\n",
                                  "[columns.a]\nsize = 3\n"])  # fmt: skip
def test_what_is_no_schema_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match="is not a schema to complete"):
        write_template(path, ["job"])
    assert path.read_text() == text


def test_merging_keeps_a_cell_for_the_rest() -> None:
    there = template(["a", "b"], rest=["a", "b"])["columns"]
    made = template(["a", "b"], numeric={"a": (0, 100)}, categories={"b": (1, 2)})["columns"]
    columns, kept = merged(there, made)
    assert kept == []
    assert columns["a"]["missing"]
    assert columns["b"] == {"categories": [1, 2], "other": True}
    again, kept = merged(columns, template(["a"], numeric={"a": (0, 90)})["columns"])
    assert again == columns
    assert kept == ["a"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"numeric": [("a", (0, 1))]}, "numeric must be a Mapping, got list"),
        ({"categories": "--"}, "categories must be a Mapping, got str"),
        ({"categories": {"b": "xy"}}, "categories of 'b' must be a sequence, got 'xy'"),
        ({"categories": {"b": 5}}, "categories of 'b' must be a sequence, got 5"),
        ({"rest": 5}, "rest must be a Collection, got int"),
        ({"rest": "ab"}, "got the one text 'ab'"),
    ],
)
def test_what_says_nothing_of_columns(said: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        template(["a", "b"], **said)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'job'") as caught:
        template(["age", "job", "n"], numeric={"agee": (0, 1), "n": (1, 0)}, categories={"jop": ()})
    for words in ("numeric must name columns, got 'agee'", "got 'jop'", "numeric of 'n'"):
        assert words in str(caught.value)
    path = tmp_path / "s.toml"
    path.write_text("[columns.a]\nedges = []\n[columns.'b c']\ncategories = []\n"
                    "[columns.d]\nedges = [3, 2]\n[columns.e]\nsize = 1\n")  # fmt: skip
    with pytest.raises(ValueError, match="still to be filled in") as caught:
        Schema.load(path)
    for words in ("[columns.a]\nedges = [", '[columns."b c"]\ncategories = [', "'d'", "'e'"):
        assert words in str(caught.value)
    for pasted in str(caught.value).split("\n\n")[1::2]:
        tomllib.loads(pasted)
    schema = Schema({"a": Bins((0, 1, 2)), "b": Categories((1, 2)), "c": Categories((1, 2))})
    table = np.array([[None, 1, 7]], object)
    with pytest.raises(ValueError, match=r"under \[columns.a\]: missing = true") as caught:
        schema.encode(table)
    assert "under [columns.c]: other = true" in str(caught.value)
    assert "'b'" not in str(caught.value)


# Whole numbers ------------------------------------------------------------------------------------


def test_bins_of_whole_numbers_are_called_so() -> None:
    bins = Bins.even(0, 100, 4, whole=True, missing=True)
    assert bins.labels == ("0-24", "25-49", "50-74", "75-100", "(missing)")
    codes = np.arange(5)
    made = bins.decode(codes)
    assert made.tolist()[:4] == [12, 37, 62, 87]
    assert made.isna().tolist() == [False] * 4 + [True]
    np.testing.assert_array_equal(bins.encode(made), codes)
    assert Bins((-3, -1, 0, 1), whole=True).labels == ("-3 to -2", "-1", "0 to 1")
    assert Bins((17, 24, 90), whole=True).decode(np.array([0, 1])).dtype == np.int64
    for edges in ((0, 0.5, 1), (0, 2.0**53)):
        with pytest.raises(ValueError, match="edges must be whole numbers"):
            Bins(edges, whole=True)
    with pytest.raises(ValueError, match="whole must be True or False"):
        Bins((0, 1, 2), whole=1)


def test_only_columns_that_are_called_whole_are_cut_at_whole_numbers(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    numeric = {"age": (17, 90, "whole"), "share": (0, 1), "heat": (30, 60)}
    write_template(path, list(numeric), numeric=numeric)
    columns = Schema.load(path).columns
    assert columns["age"] == Bins.even(17, 90, 10, whole=True)
    assert all(edge.is_integer() for edge in columns["age"].edges)
    assert columns["share"] == Bins.even(0, 1, 10)
    assert columns["heat"] == Bins.even(30, 60, 10)
    assert Schema.from_dict(Schema.load(path).to_dict()) == Schema.load(path)


def test_what_options_imply_is_printed(folder: Path) -> None:
    options = "--columns len,age,job,n,on --numeric len=30:60 --numeric age=0:100:whole "
    result = run(
        f"schema {options} --categories job=a,b --categories n=1,2 --categories on=true,false"
    )
    for sentence in (
        "Real numbers in 10 bins: len from 30 to 60. Add :whole to the bounds of whole numbers.",
        "Whole numbers in 10 bins: age from 0 to 100.",
        "Categories are texts in job.",
        "Categories are whole numbers in n.",
        "Categories are truth values in on.",
    ):
        assert sentence in said(result)
    columns = Schema.load("schema.toml").columns
    assert isinstance(columns["len"], Bins)
    assert not columns["len"].whole
    assert columns["len"].labels[3] == "[39, 42)"


def test_options_given_again_add_to_what_they_said(folder: Path) -> None:
    result = run("schema --columns a,b --columns c --missing a --missing b,c --numeric a=0:1 "
                 "--numeric b=0:1 --categories c=x,y")  # fmt: skip
    assert result.exit_code == 0, result.output
    columns = Schema.load("schema.toml").to_dict()["columns"]
    assert [each.get("missing", each.get("other")) for each in columns.values()] == [True] * 3


def test_each_option_with_a_list_may_be_given_again() -> None:
    """Of every command: a second --missing must not silently replace the first."""
    found = {}
    for name, command in get_command(app).commands.items():
        for each in command.make_context(name, [], resilient_parsing=True).command.params:
            words = getattr(each, "help", None) or ""
            if re.search("comma-separated|repeated|give it again", words, re.IGNORECASE):
                found[f"{name} {each.opts[0]}"] = each.multiple
    assert {"schema --missing", "schema --columns", "sweep --epsilons", "suite --tasks"} <= set(
        found
    )
    assert all(found.values()), found


# The newcomer's route -----------------------------------------------------------------------------


def test_from_raw_data_to_a_private_model_in_two_tries(folder: Path) -> None:
    first = run("schema --csv people.data --from-documentation people.names")
    assert first.exit_code == 0, first.output
    assert "(echo age,workclass,class; cat people.data) > with-names.csv" in said(first)
    assert "--numeric age=LOW:HIGH" in said(first)
    assert "--missing all" in said(first)
    Path("with-names.csv").write_text("age,workclass,class\n" + Path("people.data").read_text())
    second = run(
        "schema --csv with-names.csv --from-documentation people.names --numeric age=0:100:whole "
        "--missing all"
    )
    assert "Nothing is left to fill in" in said(second)
    assert not Schema.load("schema.toml").columns["class"].other
    model = run("naive-bayes with-names.csv --schema schema.toml --target-column class")
    assert model.exit_code == 0, model.output
    made = run("bayes-net with-names.csv --schema schema.toml --network n.toml --synthetic 50")
    assert made.exit_code == 2
    Path("n.toml").write_text("[parents]\nage = []\nclass = ['age']\n")
    made = run("bayes-net with-names.csv --schema schema.toml --network n.toml --synthetic 50")
    assert made.exit_code == 0, made.output
    lines = Path("results/bayes-net/synthetic.csv").read_text().splitlines()
    ages = [line.split(",")[0] for line in lines[1:]]
    assert all(age == "" or age.isdigit() for age in ages)


def test_columns_that_are_not_to_be_used_stay_away(folder: Path) -> None:
    """What was deleted from a schema does not come back, unless something is said of it."""
    first = run("schema --csv people.csv --numeric age=0:100")
    assert "What is not to be used, such as names and numbers of persons" in said(first)
    text = Path("schema.toml").read_text()
    Path("schema.toml").write_text(text[: text.index("[columns.income]")])
    again = run("schema --csv people.csv --categories workclass=Private,State-gov --missing all")
    assert "Left out, because schema.toml lacks them: income; --columns adds more." in said(again)
    assert "Nothing is left to fill in." in said(again)
    assert Schema.load("schema.toml").names == ("age", "workclass")
    more = run("schema --csv people.csv --categories income=a,b")
    assert "Left out" not in said(more)
    assert Schema.load("schema.toml").names == ("age", "workclass", "income")
    chosen = "schema --csv people.csv --columns workclass,age --numeric age=0:100 --out chosen.toml"
    assert "Fill in the categories of workclass," in said(run(chosen))
    wrong = run("schema --csv people.csv --header --columns wage --out other.toml")
    assert "columns must be one of 'age', 'workclass', 'income', got 'wage'" in said(wrong)
    Path("other.toml").write_text("no schema")
    assert "exists and is not a schema" in said(
        run("schema --csv people.csv --header --out other.toml")
    )


def test_every_column_with_records_that_do_not_fit_is_named(folder: Path) -> None:
    run("schema --csv people.csv --categories workclass=Private,State-gov --categories income=a,b "
        "--numeric age=0:100")  # fmt: skip
    result = run("naive-bayes people.csv --schema schema.toml --target-column income")
    assert result.exit_code == 2
    for name in ("workclass", "income"):
        assert f"under [columns.{name}]: other = true" in said(result)
    assert "?" not in said(result)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--target-column incom", "did you mean 'income'?"),
        ("--target-column age", "got 'age', which has bins"),
        ("--target-column workclass", "under [columns.workclass]: other = false"),
    ],
)
def test_a_target_that_cannot_be_predicted(folder: Path, options: str, message: str) -> None:
    run("schema --csv people.csv --from-documentation people.names --numeric age=0:100 "
        "--missing all")  # fmt: skip
    for verb in ("classify", "naive-bayes"):
        result = run(f"{verb} people.csv --schema schema.toml {options}")
        assert result.exit_code == 2
        assert message in said(result)
    assert not Path("results").exists()


@pytest.mark.parametrize("log", ["", " --log"])
def test_names_in_a_documentation_alone_are_in_no_schema(folder: Path, log: str) -> None:
    """Records of the form of documentation were written as names and values."""
    Path("records.txt").write_text(f"{SECRET}: diabetes, asthma.\nBert Bach: asthma, gout.\n")
    command = f"schema --from-documentation records.txt{log}"
    alone = run(command)
    assert alone.exit_code == 2
    assert "give --columns or --csv; --from-documentation alone is not enough" in said(alone)
    assert not Path("schema.toml").exists()
    for table in ("--csv people.csv --header", "--columns age,illness"):
        Path("schema.toml").unlink(missing_ok=True)
        result = run(f"{command} {table}")
        assert result.exit_code == 0, result.output
        for text in (result.output, Path("schema.toml").read_text()):
            assert SECRET not in text
            assert "Bert" not in text
            assert "asthma" not in text


def test_a_documentation_fills_in_the_columns_of_a_table(folder: Path) -> None:
    result = run("schema --csv people.csv --from-documentation people.names --numeric age=0:9.5")
    assert Schema.load("schema.toml").columns["income"] == Categories((">50K", "<=50K"))
    assert "The classes of the documentation are taken to be income." in said(result)
    result = run("schema --columns age,shoe,hat --from-documentation people.names --out t.toml")
    assert "The documentation leaves out shoe, hat." in said(result)


@pytest.mark.usefixtures("folder")
def test_bounds_are_not_printed_as_emoji() -> None:
    """As they were: ``:100:`` has a picture of its own."""
    found = run("schema --csv people.csv --numeric age=0:100:20 --out new.toml")
    assert found.exit_code == 2
    assert "age=0:100:whole" in said(found)
    assert "age=0:100:20" in said(found)
