"""
A social network
================

A network has nodes and edges and no features. Affinities between nodes go in as a sparse matrix; a new member is placed
by the friends it names. The network is made: five communities, a few hubs, and friendships that are not all returned.
"""

# %%
# 2000 members. Most friendships are within a community; a tenth are anywhere. Hubs have many friends.

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

from outfold import LaplacianEigenmaps, SpectralClustering
from outfold.plotting import panels

rng = np.random.default_rng(0)
n, community = 2000, rng.integers(5, size=2000)
popular = rng.pareto(2.5, n) + 1
rows, columns = [], []
for member in range(n):
    odds = popular * np.where(community == community[member], 1.0, 0.03)
    odds[member] = 0.0
    friends = rng.choice(n, size=rng.integers(4, 15), replace=False, p=odds / odds.sum())
    rows += [member] * len(friends)
    columns += friends.tolist()
network = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
print(f"{network.nnz} friendships; the most popular member has {int(network.sum(axis=0).max())}")

# %%
# A friendship that is not returned counts half: ``symmetrize="mean"`` is the default for sparse affinities.

known, new = slice(0, 1800), slice(1800, 2000)
friends = network[known][:, known]
clusters = SpectralClustering(5, kernel="precomputed").fit(friends)
print(f"communities of members: adjusted Rand index {adjusted_rand_score(community[known], clusters.labels_):.2f}")

# %%
# New members are rows of friends among the known ones.

joining = network[new][:, known]
found = clusters.predict(joining)
print(f"communities of new members: adjusted Rand index {adjusted_rand_score(community[new], found):.2f}")

# %%

maps = LaplacianEigenmaps(4, kernel="precomputed").fit(friends)
places = maps.transform(joining, on_far="keep")
figure, (axes,) = panels(1)
axes.scatter(*maps.embedding_[:, :2].T, c=community[known], cmap="tab10", s=4)
axes.scatter(*places[:, :2].T, c=community[new], cmap="tab10", s=16, edgecolor="black", linewidth=0.5)
axes.set(xlabel="coordinate 1", ylabel="coordinate 2", title="Members, and new members (circled)")
figure.savefig("social_network.png", dpi=110)
