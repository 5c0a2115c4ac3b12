"""The models: each a function from a scene to quantiles, horizon x levels.

Rule of this folder: pure; a model that cannot work with a past raises ``UnsuitedError`` with the reason. The quick ones
are members of the pool; the others need an installed package and are asked for by name.
"""
