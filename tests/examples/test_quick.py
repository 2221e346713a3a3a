"""The notebook that goes from a private agent to a released environment, run from top to bottom."""

from importlib import import_module
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "quick.ipynb"


@pytest.mark.needs("nbformat", "nbclient", "ipykernel")
@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """In 20 seconds on an idle core; both agents are within a tenth of the optimum."""
    nbformat, nbclient = import_module("nbformat"), import_module("nbclient")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(
        nbformat.v4.new_code_cell("assert (result > 0.85 * best).all(), result.to_dict()")
    )
    client = nbclient.NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert (tmp_path / "model" / "model.json").is_file()


@pytest.mark.needs("nbformat")
def test_the_notebook_is_kept_without_output() -> None:
    nbformat = import_module("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) >= 6
    assert not [cell for cell in code if cell.outputs or cell.execution_count]
