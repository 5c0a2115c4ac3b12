"""Which files of tests need not be imported: those of which ``-m`` can choose none.

Rule of this file: text alone decides, and what cannot be known of a mark is left open. A file is imported unless the
marks that it gives to all its tests (``pytestmark``) rule each of them out, whatever marks they have besides.
"""

import ast
import re

#: The marks of a file, as far as they stand in its text; of a longer list the first ones do.
_OF_ALL_TESTS = re.compile(r"^pytestmark = (\[[^\]]*|.*)", re.M)
#: With one of these, a test gets ``landing`` by its own text alone (``pytest_itemcollected`` in tests/conftest.py).
_LANDING_IS_WRITTEN = {"e2e", "browser", "training", "slow"}


def may_choose(expression: str, text: str) -> bool:
    """Whether a test of a file with that ``text`` can be one that ``-m expression`` chooses.

    >>> may_choose("not (slow or e2e)", "pytestmark = pytest.mark.e2e")
    False
    >>> may_choose("slow", "pytestmark = pytest.mark.e2e"), may_choose("not e2e", "@pytest.mark.e2e")
    (True, True)
    """
    of_all = _OF_ALL_TESTS.search(text)
    if of_all is None or not expression:
        return True
    known = dict.fromkeys(re.findall(r"pytest\.mark\.(\w+)", of_all.group()), True)
    if _LANDING_IS_WRITTEN.intersection(known) and "landing" not in text:
        known["landing"] = False
    try:
        parsed = ast.parse(expression, mode="eval")
    except SyntaxError:
        return True  # pytest says what is wrong with it.
    return _holds(parsed.body, known) is not False


def _holds(node: ast.expr, known: dict[str, bool]) -> bool | None:
    """Whether the expression holds for all tests with these marks, for none of them, or (None) it depends on others."""
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _holds(operand, known)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            settles = isinstance(op, ast.Or)
            found = [_holds(value, known) for value in values]
            return settles if settles in found else None if None in found else not settles
    return None
