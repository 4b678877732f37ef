"""Eigenproblems over the anchors, and the row rules: the weights of any point on the anchors."""
