"""The site: sphinx-build -W -b html docs docs/_build"""

import pathlib
import sys

from outfold._version import __version__

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # for gallery_rules

project = "Outfold"
author = "The Outfold developers"
project_copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/sg_execution_times.rst", "sg_execution_times.rst"]
templates_path = ["_templates"]
highlight_language = "none"  # what is not marked as code is a formula or what a program says
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # parameters are described in words
autodoc_member_order = "bysource"
add_module_names = False  # the page is the module
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False  # types are words, not links
python_maximum_signature_line_length = 100


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[/\\](?!isomap_faces)\w+\.py$",  # the faces are not in the repository
    "image_scrapers": ("gallery_rules.taken",),
    "doc_module": ("outfold",),
    "backreferences_dir": "gallery/backreferences",
    "within_subsection_order": "gallery_rules.Order",
    "remove_config_comments": True,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "abort_on_example_error": True,
    "download_all_examples": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "Outfold"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
