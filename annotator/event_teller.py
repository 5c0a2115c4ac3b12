"""A door: Events of Kubernetes (events.k8s.io/v1), made once, and carried on as a series.

Rule of this file: an Event that is there already was told, by this process or one before. Events end by themselves
after a while (an hour, as a rule): one that is to go on and is gone is made anew.
"""

from .api_errors import ApiError
from .happenings import Happening, series
from .kube_api import EVENTS, KubeApi


class EventTeller:
    """Tells of what happens, by ``api``."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    def tell(self, happening: Happening, now_s: float) -> None:
        """Tell it.

        Raises:
            ApiError: it was not told.
        """
        try:
            if happening.times > 1 and self._go_on(happening, now_s):
                return
            self._api.create(EVENTS, happening.namespace, happening.body)
        except ApiError as error:
            if error.status != 409:
                raise

    def _go_on(self, happening: Happening, now_s: float) -> bool:
        """Count it once more; False where it is gone."""
        try:
            self._api.patch(EVENTS, happening.namespace, happening.name, series(happening.times, now_s))
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True
