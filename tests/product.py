"""The folders of what users run; a house rule about the product reads all of them."""

PRODUCT = (
    "annotator",
    "archive",
    "collectors",
    "control",
    "forecaster",
    "paceline",
    "postmortem",
    "streams",
    "trials",
    "ui",
)
