"""How the gallery comes by the pictures of an example, and which example follows which."""

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


class Order:
    """First what a newcomer wants to see; examples that are not named come last, by name."""

    named = ("new_points", "from_embedding_to_data", "diffusion_time", "sampling_density", "landmarks_and_size")

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, filename):
        name = pathlib.Path(filename).stem
        return self.named.index(name) if name in self.named else len(self.named), name
