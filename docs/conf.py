"""The site of the docs: ``sphinx-build -W --keep-going docs build/site`` makes it, offline."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "site"))

import privrl

project = "privrl"
author = "the privrl developers"
project_copyright = author
version = release = privrl.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "commands",
    "mathml",
    "pages",
    "reference",
]
exclude_patterns = ["make", "site", "examples/*.ipynb", "examples/*.py", "sg_execution_times.rst"]
templates_path: list[str] = []
default_role = "py:obj"
suppress_warnings = ["config.cache"]  # settings that are functions make no difference to pages

# Markdown, and tutorials that run: what is run once is kept beside the pages until it changes.
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
myst_url_schemes = ("http", "https", "mailto")
nb_execution_mode = "cache"
nb_execution_in_temp = True  # what they write is not left among the pages
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

# The library, from its docstrings.
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say types, with shapes, units and ranges
autosummary_generate = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # autodoc shows them
maximum_signature_line_length = 88

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"one_file|continuous|tasks",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 5,
    "show_memory": False,
    "write_computation_times": False,  # that page asks other machines for scripts
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's machine is
html_title = "privrl"
html_baseurl = ""  # the owner's to set, once it is known
html_math_renderer = "mathml"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it asks for pages, which browsers refuse of files
html_favicon = "site/static/logo.svg"
html_logo = "site/static/logo.svg"
html_theme_options = {
    "logo": {"text": "privrl", "alt_text": "privrl"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "comparison": []},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "quickstart": [], "comparison": [], "faq": []}
