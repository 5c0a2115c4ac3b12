"""What fills each column of a GPU's samples, by either source: docs/gpu-rules.md says by it which rules are fed.

Rule of this file: data, read off the sources themselves.
"""

from paceline.gpu import dcgm, exporter

from . import device

#: What an exporter fills: our columns, or the field's name where it has none.
_EXPORTED = exporter.COLUMNS | {field.column for field in dcgm.FIELDS if field.name in exporter.SOURCES} - {""}
_BY_EXPORTER = dict.fromkeys(_EXPORTED, "dcgm-exporter")
#: Column, or DCGM field without one -> what fills it.
SOURCES: dict[str, str] = {
    column: ", ".join(told[column] for told in (device.SOURCES, _BY_EXPORTER) if column in told)
    for column in device.SOURCES | _BY_EXPORTER
}
