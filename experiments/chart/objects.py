"""What the chart says to operators, of every values file that tests know, as JSON: for checkers that are not Python.

Rule of this file: it prints, and judges nothing.
"""

import json

from .render import case, cases

OPERATORS = ("monitoring.coreos.com/", "keda.sh/")


def main() -> None:
    """Print each object once."""
    made = {json.dumps(one, sort_keys=True) for name in cases() for one in case(name)}
    print(json.dumps([one for text in sorted(made) if (one := json.loads(text))["apiVersion"].startswith(OPERATORS)]))


if __name__ == "__main__":
    main()
