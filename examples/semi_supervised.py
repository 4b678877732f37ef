"""
Many images, few labels
=======================

Bengio et al. (2004) recall that an embedding can be learnt from all examples, labelled or not, and that a classifier
then needs few labels. Here 1200 handwritten digits are embedded without their labels; a linear classifier sees the
labels of some, in coordinates or in pixels, and is asked about 597 digits that neither it nor the embedding has seen:
``transform`` places them.
"""

# %%
# The eigenfunctions belong to the unlabelled images. They are fitted once.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outfold import LaplacianEigenmaps
from outfold.plotting import panels

X, digit = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
train, test = order[:1200], order[1200:]
maps = LaplacianEigenmaps(20, n_neighbors=10).fit(X[train])
spaces = {"pixels": X, "coordinates": maps.transform(X, on_far="nearest")}

# %%
# From 1 to 64 labels of each digit, five draws of which images have one. The classifier is the same in both spaces.

counts = (1, 2, 4, 8, 16, 32, 64)
accuracy = {name: np.zeros((5, len(counts))) for name in spaces}
for draw in range(5):
    shuffled = np.random.default_rng(draw).permutation(train)
    for column, count in enumerate(counts):
        labelled = np.concatenate([shuffled[digit[shuffled] == d][:count] for d in range(10)])
        for name, values in spaces.items():
            linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
            linear.fit(values[labelled], digit[labelled])
            accuracy[name][draw, column] = linear.score(values[test], digit[test])
for column, count in enumerate(counts):
    told = ", ".join(f"{name} {found[:, column].mean():.3f}" for name, found in accuracy.items())
    print(f"labels of each digit: {count:2d}   accuracy on new digits: {told}")

# %%
# With a label or two of each digit the coordinates are far ahead; with very many, pixels can catch up, since an
# embedding without labels may throw away what tells digits apart.

figure, (axes,) = panels(1)
for name, color in (("coordinates", "#4477aa"), ("pixels", "#ee6677")):
    mean, spread = accuracy[name].mean(axis=0), accuracy[name].std(axis=0)
    axes.fill_between(counts, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)
    axes.plot(counts, mean, "o-", color=color, label=f"in {len(spaces[name][0])} {name}")
axes.set_xscale("log", base=2)
axes.set(xticks=counts, xticklabels=counts, xlabel="labels of each digit", ylabel="accuracy on new digits")
axes.set(title="A linear classifier, before and after embedding")
axes.legend(loc="lower right", frameon=False)
figure.savefig("semi_supervised.png", dpi=110)
