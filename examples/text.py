"""
Documents by topic
==================

A table of word counts is sparse: a document has a few hundred of thousands of words. ``kernel="cosine"`` compares all
pairs of documents without a table of them, and new documents are placed by their own words. The documents are made:
each mixes two of eight topics.
"""

# %%
# 3000 documents of 120 words out of 4000. A topic is a distribution over words; a document takes most of its words from
# one topic and the rest from another.

import numpy as np
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.neighbors import KNeighborsClassifier

from outfold import DiffusionMaps
from outfold.plotting import panels

rng = np.random.default_rng(0)
topics = rng.dirichlet(np.full(4000, 0.02), size=8)
main = rng.integers(8, size=3000)
side = rng.integers(8, size=3000)
share = rng.uniform(0.6, 1.0, size=3000)[:, None]
words = np.vstack([rng.multinomial(120, p) for p in share * topics[main] + (1 - share) * topics[side]])
X = csr_array(words.astype(float))
train, test = slice(0, 2400), slice(2400, 3000)
print(f"{X.nnz / X.shape[0]:.0f} different words a document, {X.nnz / np.prod(X.shape):.1%} filled")

# %%
# Seven coordinates tell eight topics apart. The embedding of 600 documents that the fit has not seen is as good.

maps = DiffusionMaps(7, kernel="cosine").fit(X[train])
components = TruncatedSVD(7, random_state=0).fit(X[train])
places = {
    "diffusion maps": (maps.embedding_, maps.transform(X[test], on_far="keep")),
    "singular vectors": (components.transform(X[train]), components.transform(X[test])),
}
for name, (known, new) in places.items():
    nearest = KNeighborsClassifier(10).fit(known, main[train])
    print(f"{name}: {nearest.score(new, main[test]):.1%} of the new documents have the topic of their neighbours")

# %%
# What the words of a document do not explain is seen too: shuffled columns are not documents of these topics.

shuffled = csr_array((X[test].data, rng.permutation(4000)[X[test].indices], X[test].indptr), shape=X[test].shape)
for name, rows in {"new documents": X[test], "shuffled ones": shuffled}.items():
    print(f"flagged: {maps.trust(rows).flag.mean():.1%} of {name}")

# %%

new = places["diffusion maps"][1]
figure, (axes,) = panels(1)
axes.scatter(new[:, 0], new[:, 1], c=main[test], cmap="tab10", s=8)
axes.set(xlabel="coordinate 1", ylabel="coordinate 2", title="600 new documents, coloured by their main topic")
figure.savefig("text.png", dpi=110)
