"""History: what an archive holds and how it is read, by the page, the forecaster, reports and people alike.

``paceline archive`` writes it. Whoever reads needs the extra ``history``.
"""
