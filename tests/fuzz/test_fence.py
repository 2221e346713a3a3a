"""The fence around the fuzzer holds, and the fault that it was built for is fixed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from privrl.envs import riverswim, save_tables
from privrl.files import files as _files

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

WRITES = (
    "open(out / 'x', 'w')",
    "os.open(out / 'x', os.O_CREAT | os.O_WRONLY)",
    "(out / 'x').mkdir()",
    "(out / 'kept').unlink()",
    "(own / 'mine').replace(out / 'x')",
    "(own / 'mine').replace(out / 'kept')",
    "(out / 'kept').rename(own / 'x')",
    "os.link(own / 'mine', out / 'x')",
    "(out / 'x').symlink_to(own)",
    "sqlite3.connect(out / 'x').execute('CREATE TABLE a (b)')",
    "(own / 'link' / 'x').write_text('through a link')",
    "(own / '..' / 'out' / 'x').write_text('by the folder above')",
    "shutil.rmtree(out)",
)


@pytest.mark.few(9)
@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written_outside(write: str, tmp_path: Path) -> None:
    own, out = tmp_path / "own", tmp_path / "out"
    own.mkdir()
    out.mkdir()
    (own / "mine").write_text("mine")
    (out / "kept").write_text("kept")
    (own / "link").symlink_to(out)
    program = (
        "import os, shutil, sqlite3, sys; from pathlib import Path; "
        f"sys.path[:0] = [{str(HERE)!r}]; from fence import Outside, fence\n"
        f"own, out = Path({str(own)!r}), Path({str(out)!r}); fence(own)\n"
        "(own / 'fine').write_text('inside'); (own / 'fine').replace(own / 'renamed')\n"
        f"try:\n    {write}\nexcept Outside:\n    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("refused\n", "")
    assert [each.name for each in out.iterdir()] == ["kept"]
    assert (out / "kept").read_text() == "kept"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_what_is_no_file_is_not_written_over(tmp_path: Path) -> None:
    """A pipe stands for a device, which nobody should have to lose in a test."""
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="must be a file if it is to be written over"):
        save_tables(tmp_path / "pipe.npz", riverswim(3, 3))
    with pytest.raises(ValueError, match="must be a file if it is to be written over"):
        _files.save_private(tmp_path / "pipe.npz", b"")
    write = _files.bytes_writer(b"")
    with pytest.raises(ValueError, match="must be a file if it is to be written over"):
        _files.save_all(tmp_path, {"a.npy": write}, ("folder", {}))
    assert (tmp_path / "pipe.npz").is_fifo()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "pipe.npz"]
