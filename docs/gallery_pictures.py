"""How the gallery comes by the pictures of an example."""

import pathlib
import shutil

from sphinx_gallery.scrapers import figure_rst


def taken(block, block_vars, gallery_conf):
    """Pictures that an example has written beside itself, taken into the gallery."""
    example = pathlib.Path(block_vars["src_file"])
    names = []
    for picture in sorted(example.parent.glob(f"{example.stem}*.png")):
        names.append(next(block_vars["image_path_iterator"]))
        shutil.move(picture, names[-1])
    return figure_rst(names, gallery_conf["src_dir"])
