"""The models: each a function from a context to quantiles, horizon x levels; ``registry`` lists them.

Rule of this folder: pure; a model that cannot work with a series raises ``UnsuitedError`` with the reason. Weights are
handed to it, by the registry. One file a model, or a few that share their idea.
"""
