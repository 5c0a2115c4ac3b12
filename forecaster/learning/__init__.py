"""Training of the global network: examples from recorded series, made-up ones beside them, and the fit.

Rule of this folder: never on the request path; only ``fitting`` needs torch.
"""
