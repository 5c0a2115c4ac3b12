"""A door: under which path a kind of object lies, as the API itself says; asked once, and again after a while.

Rule of this file: it knows no kind by itself. A kind that the API does not offer (its CRD is not installed) is told as
such.
"""

from urllib.parse import quote

import msgspec

from paceline.decoders import json_decoder

from .api_errors import ApiError
from .kube_api import KubeApi, Resource
from .kube_objects import group_of

#: How long an answer holds; versions that are remembered.
HOLDS_S, MOST_VERSIONS = 600.0, 200
#: How long it holds that a version offers nothing: its CRD may be away for a moment.
HOLDS_NOTHING_S = 60.0


class _ApiResource(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _ApiResources(msgspec.Struct):
    resources: list[_ApiResource] = []


class _Preferred(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    preferred_version: _Preferred = _Preferred()


class Discovery:
    """Kinds by their version, as asked of ``api``."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._held: dict[str, tuple[float, dict[str, Resource]]] = {}

    def find(self, api_version: str, kind: str, now_s: float) -> Resource | None:
        """Where objects of ``kind`` lie: at that version, else at the one that its group prefers now.

        Raises:
            ApiError: the API does not answer.
        """
        found = self._of(api_version, now_s).get(kind)
        group = group_of(api_version)
        if found is not None or not group:
            return found
        try:
            preferred = json_decoder(_Group).decode(self._api.discover(f"/apis/{group}")).preferred_version
        except (ApiError, msgspec.DecodeError) as error:
            if isinstance(error, ApiError) and error.outcome == "busy":
                raise
            return None
        return (
            self._of(preferred.group_version, now_s).get(kind) if group_of(preferred.group_version) == group else None
        )

    def _of(self, api_version: str, now_s: float) -> dict[str, Resource]:
        at_s, held = self._held.get(api_version, (float("-inf"), {}))
        if 0 <= now_s - at_s < (HOLDS_S if held else HOLDS_NOTHING_S):
            return held
        path = f"/{'apis' if group_of(api_version) else 'api'}/{quote(api_version, safe='/')}"
        try:
            told = json_decoder(_ApiResources).decode(self._api.discover(path))
            rows = [one for one in told.resources if "/" not in one.name and one.name]
            held = {one.kind: Resource(api_version, one.kind, one.name, one.namespaced) for one in rows}
        except msgspec.DecodeError:
            held = {}
        except ApiError as error:
            if error.outcome == "busy":
                raise
            held = {}
        if len(self._held) >= MOST_VERSIONS:
            self._held.clear()
        self._held[api_version] = now_s, held
        return held
