"""The data sets: what the collection holds, and downloads from a server on this machine.

The collection is looked for in the folder named by PRIVRL_DATA, else in ``../shared/uci`` beside
the repository; the tests that need it say so when they are skipped.
"""

import hashlib
import io
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from needs import COLLECTION, needs_collection

from privrl.data import datasets
from privrl.data.datasets import files
from privrl.data.datasets.sources import SOURCES, Source
from privrl.data.schema import Categories

# As the collection's description states them, which was compared with the papers' notebooks.
SHAPES = {
    "CreditCard": (30000, 25),  # with ID and the class
    "Thyroid": (7200, 22),
    "Shopper": (12330, 18),
    "Digit": (5620, 65),
    "GermanCredit": (1000, 21),
    "Bank": (41188, 21),
    "Spam": (4601, 58),
    "Adult": (48842, 15),
}
ATTRIBUTES = {  # of the paper
    "CreditCard": 23,
    "Thyroid": 21,
    "Shopper": 17,
    "Digit": 64,
    "GermanCredit": 20,
    "Bank": 20,
    "Spam": 57,
    "Adult": 13,
}
CLASSES = {
    "CreditCard": {0: 23364, 1: 6636},
    "Thyroid": {1: 166, 2: 368, 3: 6666},
    "Shopper": {False: 10422, True: 1908},
    "Digit": dict(enumerate([554, 571, 557, 572, 568, 558, 558, 566, 554, 562])),
    "GermanCredit": {0: 300, 1: 700},
    "Bank": {"no": 36548, "yes": 4640},
    "Spam": {0: 2788, 1: 1813},
    "Adult": {"<=50K": 37155, ">50K": 11687},
}


# Public facts ------------------------------------------------------------------------------------

NEEDS_SHEETS = pytest.mark.needs("python_calamine")  # CreditCard is an .xls
EACH = [pytest.param(n, marks=NEEDS_SHEETS if n == "CreditCard" else ()) for n in datasets.NAMES]


def test_names() -> None:
    assert set(datasets.NAMES) == set(SHAPES)
    for name in ("adult", "Iris", "", None, 3):
        with pytest.raises(ValueError, match=r"name must be one of 'CreditCard', .*'Adult', got"):
            datasets.load(name)


@pytest.mark.parametrize("name", datasets.NAMES)
def test_schemas_need_no_data(name: str) -> None:
    schema = SOURCES[name].schema
    assert len(schema.names) == ATTRIBUTES[name] + 1
    target = schema.columns[schema.names[-1]]
    assert isinstance(target, Categories)
    assert target.values == tuple(CLASSES[name])
    assert not target.other


@pytest.mark.parametrize("name", datasets.networks())
def test_networks(name: str) -> None:
    parents = datasets.networks()[name]
    known = SOURCES[name].schema.subset(parents).names
    for place, (node, above) in enumerate(parents.items()):
        assert known[place] == node
        assert set(above) <= set(known[:place])  # so it is acyclic
    nodes, edges = {"Adult": (7, 13), "Bank": (10, 16), "GermanCredit": (14, 14)}[name]
    assert (len(parents), sum(map(len, parents.values()))) == (nodes, edges)


def test_networks_are_copies() -> None:
    datasets.networks()["Adult"].clear()
    assert datasets.networks()["Adult"]


# The collection ----------------------------------------------------------------------------------


@pytest.mark.few(8)
@needs_collection
@pytest.mark.parametrize("name", EACH)
def test_shape_classes_and_schema(name: str) -> None:
    data = datasets.load(name, COLLECTION)
    assert (data.name, data.licence) == (name, "CC BY 4.0")
    assert "https://doi.org/10.24432/" in data.citation
    assert data.frame.shape == SHAPES[name]
    assert data.frame[data.target].value_counts().to_dict() == CLASSES[name]
    assert data.target == data.schema.names[-1]
    codes = data.schema.encode(data.frame)
    assert codes.shape == (SHAPES[name][0], ATTRIBUTES[name] + 1)
    assert np.bincount(codes[:, -1]).tolist() == list(CLASSES[name].values())
    again = data.schema.encode(data.schema.decode(codes))
    np.testing.assert_array_equal(again, codes)


@pytest.mark.few(4)
@needs_collection
@pytest.mark.parametrize(
    ("name", "others"),
    [
        pytest.param(
            "CreditCard", {"EDUCATION": 14 + 280 + 51, "MARRIAGE": 54}, marks=NEEDS_SHEETS
        ),
        ("Adult", {"workclass": 2799, "occupation": 2809, "native-country": 857}),
        ("Shopper", {}),
    ],
)
def test_entries_that_no_documentation_lists(name: str, others: dict[str, int]) -> None:
    data = datasets.load(name, COLLECTION)
    for column_name, column in data.schema.columns.items():
        if isinstance(column, Categories) and column.other:
            cells = column.encode(data.frame[column_name])
            assert (cells == column.size - 1).sum() == others.get(column_name, 0)


@needs_collection
def test_public_categories_may_not_occur() -> None:
    data = datasets.load("GermanCredit", COLLECTION)
    assert 7 in data.schema.columns["purpose"].values
    assert not (data.frame["purpose"] == 7).any()


@pytest.mark.slow
@NEEDS_SHEETS
@needs_collection
def test_credit_card_equals_its_conversion() -> None:
    path = COLLECTION / "credit_card" / "default_of_credit_card_clients.csv"
    if not path.is_file():
        pytest.skip(f"no conversion to compare UCI's own .xls with: save it as {path}")
    converted = pd.read_csv(path)
    pd.testing.assert_frame_equal(datasets.load("CreditCard", COLLECTION).frame, converted)


@needs_collection
def test_adult_is_clean() -> None:
    frame = datasets.load("Adult", COLLECTION).frame
    assert frame.isna().any(axis=1).sum() == 3620
    assert not (frame == "?").any().any()
    numeric = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    assert frame[numeric].dtypes.eq("int64").all()
    assert frame.columns[frame.nunique() == 2].tolist() == ["sex", "income"]
    degrees = SOURCES["Adult"].columns["education"].encode(frame["education"])
    np.testing.assert_array_equal(degrees + 1, frame["education-num"])


@needs_collection
def test_distinct_values_are_those_described() -> None:
    bank = datasets.load("Bank", COLLECTION).frame
    assert (bank["default"] == "unknown").sum() == 8597
    assert (bank["pdays"] == 999).sum() == 39673
    assert bank.notna().all(axis=None)
    thyroid = datasets.load("Thyroid", COLLECTION).frame
    assay = ["TSH", "T3", "TT4", "T4U", "FTI"]
    assert thyroid[assay].nunique().tolist() == [326, 85, 272, 161, 466]
    shopper = datasets.load("Shopper", COLLECTION).frame
    assert shopper["PageValues"].nunique() == 2704
    digit = datasets.load("Digit", COLLECTION).frame
    constant = digit.columns[digit.nunique() == 1].tolist()
    assert constant == ["pixel_0_0", "pixel_4_7"]  # the first and the fortieth
    german = datasets.load("GermanCredit", COLLECTION).frame
    assert german[["duration", "amount", "age"]].nunique().tolist() == [33, 923, 53]


@needs_collection
def test_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVRL_DATA", str(COLLECTION))
    assert datasets.load("GermanCredit").frame.shape == SHAPES["GermanCredit"]


# Folders -----------------------------------------------------------------------------------------

CONTENT = {"one.csv": b"x,y\r\n1,0\r\n3,1\r\n", "two.csv": b"x,y\n5,1\n"}


def digests_of(content: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make a data set "Tiny" of two files known, with an empty cache; return the cache."""
    source = Source(
        files.Files("tiny", digests_of(CONTENT), "7/tiny+set.zip"),
        lambda folder: pd.concat([pd.read_csv(folder / name) for name in CONTENT]),
        {"y": Categories((0, 1))},
        "Nobody (2000). Tiny.",
    )
    monkeypatch.setitem(SOURCES, "Tiny", source)
    monkeypatch.delenv("PRIVRL_DATA", raising=False)
    pooch = import_module("pooch")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "privrl" / "tiny"


def put(folder: Path, content: dict[str, bytes]) -> Path:
    (folder / "tiny").mkdir(parents=True)
    for name, data in content.items():
        (folder / "tiny" / name).write_bytes(data)
    return folder


@pytest.mark.needs("pooch")
def test_a_folder_is_used_as_it_is(tiny: Path, tmp_path: Path) -> None:
    folder = put(tmp_path / "mine", CONTENT)
    assert datasets.load("Tiny", folder).frame["x"].tolist() == [1, 3, 5]
    assert datasets.load("Tiny", str(folder)).target == "y"
    assert not tiny.exists()


@pytest.mark.parametrize("by", ["argument", "variable"])
@pytest.mark.needs("pooch")
def test_a_file_absent_from_the_folder_is_not_downloaded(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: "Server", by: str
) -> None:
    server.content = zipped(CONTENT)
    folder = put(tmp_path / "mine", {"one.csv": CONTENT["one.csv"]})
    if by == "variable":
        monkeypatch.setenv("PRIVRL_DATA", str(folder))
    with pytest.raises(FileNotFoundError, match=r"two\.csv must exist, .* unset PRIVRL_DATA"):
        datasets.load("Tiny", folder if by == "argument" else None)
    assert server.asked == []
    assert not tiny.exists()


@pytest.mark.needs("pooch")
def test_a_changed_file_in_the_folder(tiny: Path, tmp_path: Path) -> None:
    unix = {name: data.replace(b"\r\n", b"\n") for name, data in CONTENT.items()}
    folder = put(tmp_path / "mine", unix)
    with pytest.raises(ValueError, match=r"one\.csv must be the file that UCI distributes"):
        datasets.load("Tiny", folder)


# Downloads ---------------------------------------------------------------------------------------


class Server:
    """What the server on this machine sends, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.content = b""
        self.status = 200
        self.promised: int | None = None  # bytes that the header states, if not the true number


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked.append(self.path)
            self.send_response(told.status)
            length = len(told.content) if told.promised is None else told.promised
            if length >= 0:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(told.content)

        def log_message(self, *args: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setattr(files, "ARCHIVES", f"http://127.0.0.1:{running.server_port}/public")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield told
    running.shutdown()
    running.server_close()
    thread.join()


def zipped(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.needs("pooch")
def test_a_download_fills_the_cache_once(tiny: Path, server: Server) -> None:
    server.content = zipped(CONTENT | {"readme.txt": b"not needed"})
    for _ in range(2):
        assert datasets.load("Tiny").frame["x"].tolist() == [1, 3, 5]
    assert server.asked == ["/public/7/tiny+set.zip"]
    assert {path.name for path in tiny.iterdir()} == set(CONTENT)
    assert datasets.load("Tiny", tiny.parent).frame["x"].tolist() == [1, 3, 5]


@pytest.mark.needs("pooch")
def test_archives_in_archives_and_folders(tiny: Path, server: Server) -> None:
    inner = zipped(
        {"__MACOSX/set/._two.csv": b"junk", "set/two.csv": CONTENT["two.csv"], "../evil.csv": b""}
    )
    server.content = zipped({"a b/one.csv": CONTENT["one.csv"], "more.zip": inner})
    assert len(datasets.load("Tiny").frame) == 3
    assert {path.name for path in tiny.iterdir()} == set(CONTENT)
    assert {path.name for path in tiny.parent.iterdir()} == {"tiny"}


@pytest.mark.needs("pooch")
def test_a_spoiled_cache_is_filled_anew(tiny: Path, server: Server) -> None:
    server.content = zipped(CONTENT)
    datasets.load("Tiny")
    (tiny / "two.csv").write_bytes(b"spoiled")
    assert datasets.load("Tiny").frame["x"].tolist() == [1, 3, 5]
    assert len(server.asked) == 2


def left_behind(tiny: Path) -> list[Path]:
    return list(tiny.parent.parent.rglob("*"))


@pytest.mark.needs("pooch")
def test_a_wrong_checksum_is_refused_and_leaves_nothing(tiny: Path, server: Server) -> None:
    server.content = zipped(CONTENT | {"two.csv": b"x,y\n6,1\n"})
    with pytest.raises(ValueError, match=r"two\.csv in http://.*tiny\+set\.zip must be the file"):
        datasets.load("Tiny")
    assert left_behind(tiny) == []


@pytest.mark.needs("pooch")
def test_an_archive_without_the_file(tiny: Path, server: Server) -> None:
    server.content = zipped({"one.csv": CONTENT["one.csv"]})
    with pytest.raises(ValueError, match=r"must hold 'two\.csv', and does not"):
        datasets.load("Tiny")
    assert left_behind(tiny) == []


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.needs("pooch")
def test_an_interrupted_download(tiny: Path, server: Server, announced: bool) -> None:
    whole = zipped(CONTENT)
    server.content = whole[: len(whole) // 2]
    server.promised = len(whole) if announced else -1
    with pytest.raises(ConnectionError, match=r"tiny\+set\.zip could not be downloaded whole"):
        datasets.load("Tiny")
    assert left_behind(tiny) == []
    server.content, server.promised = whole, None
    assert len(datasets.load("Tiny").frame) == 3


@pytest.mark.parametrize("status", [404, 500])
@pytest.mark.needs("pooch")
def test_a_server_that_refuses(tiny: Path, server: Server, status: int) -> None:
    server.status = status
    server.content = zipped(CONTENT)
    with pytest.raises(ConnectionError, match=f"{status}"):
        datasets.load("Tiny")
    assert left_behind(tiny) == []


@pytest.mark.needs("pooch")
def test_no_server(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ARCHIVES", "http://127.0.0.1:9/public")  # the discard port
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(ConnectionError, match="give their folder"):
        datasets.load("Tiny")
    assert left_behind(tiny) == []


@pytest.mark.needs("pooch")
def test_an_archive_that_would_fill_the_memory(
    tiny: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    server.content = zipped({"one.csv": b"0" * 100_000})
    with pytest.raises(ValueError, match="at most 1000 bytes"):
        datasets.load("Tiny")
    assert left_behind(tiny) == []


@pytest.mark.needs("pooch")
def test_without_pooch(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"folder that has them, needs .* 'privrl\[data\]'"):
        datasets.load("Tiny")
    assert len(datasets.load("Tiny", put(tmp_path / "mine", CONTENT)).frame) == 3


@pytest.mark.needs("pooch", "tqdm")
def test_a_progress_bar_only_if_asked(tiny: Path, server: Server, capfd) -> None:
    server.content = zipped(CONTENT)
    datasets.load("Tiny")
    assert capfd.readouterr() == ("", "")
    (tiny / "one.csv").unlink()
    datasets.load("Tiny", progress=True)
    out, err = capfd.readouterr()
    assert "100%" in err
    assert out == ""


@pytest.mark.few(8)
@needs_collection
@pytest.mark.parametrize("name", EACH)
@pytest.mark.needs("pooch")
def test_every_set_through_an_archive_laid_out_as_ucis(
    name: str, server: Server, tiny: Path
) -> None:
    source = SOURCES[name].files
    content = {file: (COLLECTION / source.folder / file).read_bytes() for file in source.digests}
    if name == "Bank":
        inner = {f"bank-additional/{file}": data for file, data in content.items()}
        content = {"bank.zip": zipped({"bank.csv": b""}), "bank-additional.zip": zipped(inner)}
    server.content = zipped(content)
    assert datasets.load(name).frame.shape == SHAPES[name]
    assert server.asked == [f"/public/{source.archive}"]


@pytest.mark.slow
def test_archives_are_opened_one_in_another_and_no_deeper() -> None:
    """One that holds itself would be opened for ever."""
    inner = zipped({"one.csv": b"x"})
    assert files._members(io.BytesIO(zipped({"a.zip": inner})), {"one.csv": ""}) == {
        "one.csv": b"x"
    }
    for _ in range(1100):
        inner = zipped({"deeper.zip": inner})
    assert files._members(io.BytesIO(inner), {"one.csv": ""}) == {}
