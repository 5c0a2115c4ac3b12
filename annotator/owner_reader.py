"""A door: an owner is read, so that its own owner and what was written to it are known.

Rule of this file: one object, one request (and now and then discovery's). What may not be read is as if it were not
there, and of a kind that is told at it is said once.
"""

import threading
from collections.abc import Callable

import msgspec

from paceline.decoders import json_decoder

from .api_errors import ApiError, NoRightError, without_name
from .discovery import Discovery
from .kube_api import KubeApi
from .kube_objects import Told, known
from .owners import Owners, Wanted


class OwnerReader:
    """Reads into ``owners``; ``lock`` is held while they change, ``say`` tells the operator."""

    def __init__(
        self, api: KubeApi, discovery: Discovery, owners: Owners, lock: threading.Lock, say: Callable[[str], None]
    ) -> None:
        self._api, self._discovery, self._owners, self._lock = api, discovery, owners, lock
        self._say, self._said = say, set[str]()

    def read(self, wanted: Wanted, now_s: float) -> None:
        """Read one.

        Raises:
            ApiError: the API is busy or away: ask again later.
        """
        ref = wanted.ref
        try:
            resource = self._discovery.find(ref.api_version, ref.kind, now_s)
            if resource is None:
                raise ApiError(404, "NotFound", f"the API offers no {ref.kind} in {ref.api_version}")
            content = self._api.get(resource, wanted.namespace, ref.name)
            told = known(json_decoder(Told).decode(content), resource.api_version, ref.kind)
        except ApiError as error:
            if error.outcome == "busy":
                raise
            if isinstance(error, NoRightError) and (ref.group, ref.kind) in self._owners.kinds:
                self._once(without_name(error))
            self._unreadable(ref.uid, now_s)
            return
        except (msgspec.DecodeError, UnicodeError):
            self._unreadable(ref.uid, now_s)
            return
        with self._lock:
            if told.ref.uid == ref.uid:
                self._owners.put(told)
            else:
                self._owners.unreadable(ref.uid, now_s)

    def _once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)

    def _unreadable(self, uid: str, now_s: float) -> None:
        with self._lock:
            self._owners.unreadable(uid, now_s)
