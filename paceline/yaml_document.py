"""A YAML file as plain text, lists and mappings, and on which line each part stands.

Rule of this file: every scalar stays text, because YAML's own types turn 12:30 into 750 and no into false; what a text
means is the reader's business. What a short file could use to grow without bound (aliases, nesting) is refused.
"""

from typing import Any

import yaml

#: The longest file, in characters, and the deepest nesting, that is read.
LONGEST, DEEPEST = 262_144, 12


class YamlError(ValueError):
    """A file that is not read: why and on which line, on one line."""


class YamlDocument:
    """What a file says: ``data``, and ``line`` of a part named as in ``jobs[2].faults[0].size``."""

    def __init__(self, text: str) -> None:
        """Read ``text``.

        Raises:
            YamlError: it is no YAML, too long, nested too deep, has an alias, or a key twice.
        """
        if len(text) > LONGEST:
            raise YamlError(f"line 1: {len(text)} characters; {LONGEST} are read at most")
        self._lines: dict[str, int] = {}
        try:
            _check(text)
            root = yaml.compose(text, Loader=yaml.BaseLoader)
        except yaml.MarkedYAMLError as error:
            line = 1 if error.problem_mark is None else error.problem_mark.line + 1
            raise YamlError(f"line {line}: {', '.join(filter(None, (error.context, error.problem)))}") from error
        except yaml.YAMLError as error:
            raise YamlError(f"line 1: {str(error).splitlines()[0]}") from error
        self.data = self._plain(root, "") if root is not None else {}

    def line(self, path: str) -> int:
        """The line of the part at ``path``, or of the nearest part around it."""
        while path and path not in self._lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._lines.get(path, 1)

    def _plain(self, node: yaml.Node, path: str) -> Any:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(each, f"{path}[{index}]") for index, each in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            return node.value
        out: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise YamlError(f"line {line}: a key is a word")
            if key.value in out:
                raise YamlError(f"line {line}: {key.value} is given twice")
            inner = f"{path}.{key.value}" if path else key.value
            self._lines[inner] = line
            out[key.value] = self._plain(value, inner)
        return out


def _check(text: str) -> None:
    """Refuse what would grow, before anything is built of it."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.BaseLoader):
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise YamlError(f"line {line}: *{event.anchor}: aliases are not read; write it out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise YamlError(f"line {line}: nested deeper than {DEEPEST}")
