"""A cluster for trials: the API server of the tests with what stands behind it for Jobs, as their documents say.

Rule of this file: the Job controller (Indexed, backoffLimit 0), the garbage collector and the kubelet's part of the
API. What a pod does is a test's affair, or ``kubelet.py``'s. Nothing of the trial is known here.
"""

import uuid
from copy import deepcopy
from typing import Any

from tests.annotator.api_objects import Kind, Object, RefusedError, stamped_now
from tests.annotator.api_server import ApiServer

EVENTS = Kind("", "v1", "Event", "events")
INDEX = "batch.kubernetes.io/job-completion-index"


class Cluster(ApiServer):
    """``lingers``: pods that are deleted stay until ``vanish``, as they do while the kubelet ends them."""

    def __init__(self, port: int, rules: dict[str, list[Object]] | None = None) -> None:
        super().__init__(port, rules)
        self.served.kinds.append(EVENTS)
        self.logs: dict[str, bytes] = {}
        self.events: list[Object] = []
        self.lingers = False
        #: Whether the Job controller makes pods at all.
        self.controls = True

    # What a test does to it.

    def pods(self) -> list[Object]:
        return self.all("Pod")

    def pod(self, which: int | Object = 0) -> Object:
        """The only pod of this index; a pod as it is now."""
        if not isinstance(which, int):
            return self.get("Pod", which["metadata"]["name"], which["metadata"]["namespace"])
        (found,) = [one for one in self.pods() if one["metadata"]["annotations"][INDEX] == str(which)]
        return found

    def left(self) -> list[str]:
        """Everything that is there."""
        kinds = ("Job", "Pod", "Secret", "Service")
        return [f"{kind} {one['metadata']['name']}" for kind in kinds for one in self.all(kind)]

    def waiting(self, reason: str, message: str = "", which: int | Object = 0) -> None:
        self._status(self.pod(which), "Pending", {"waiting": {"reason": reason, "message": message}})

    def unschedulable(self, message: str, which: int | Object = 0) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self._status(self.pod(which), "Pending", None, conditions=[condition])

    def begin(self, which: int | Object = 0) -> None:
        self._status(self.pod(which), "Running", {"running": {"startedAt": stamped_now()}})

    def finish(self, code: int = 0, log: bytes = b"", which: int | Object = 0, reason: str = "", **status: Any) -> None:
        """A pod's container ends; the Job controller sees it."""
        pod = self.pod(which)
        self.logs[pod["metadata"]["name"]] = log
        end = {"exitCode": code, "reason": reason or ("Error" if code else "Completed"), "finishedAt": stamped_now()}
        self._status(pod, "Failed" if code or status else "Succeeded", {"terminated": end}, **status)
        self._control(pod)

    def take(self, which: int | Object = 0, **status: Any) -> None:
        """A pod is lost with what it ran."""
        self._status(self.pod(which), "Failed", None, **status)
        self._control(self.pod(which))

    def condition(self, kind: str, reason: str = "", message: str = "") -> None:
        """The only Job gets a condition."""
        with self.changed:
            (job,) = self.all("Job")
            told = {"type": kind, "status": "True", "reason": reason, "message": message}
            job.setdefault("status", {}).setdefault("conditions", []).append(told)
            self._put(job)

    def warn(self, reason: str, message: str) -> None:
        """An event at the only Job."""
        (job,) = self.all("Job")
        about = {"kind": "Job", "uid": job["metadata"]["uid"]}
        self.events.append({"involvedObject": about, "type": "Warning", "reason": reason, "message": message})

    def vanish(self, pod: Object) -> None:
        """The kubelet has ended it."""
        with self.changed:
            meta = pod["metadata"]
            self.delete("Pod", meta["name"], meta["namespace"])
            self._collect(meta["ownerReferences"][0]["uid"])

    # What stands behind the API.

    def _status(self, pod: Object, phase: str, state: Object | None, **status: Any) -> None:
        name = pod["spec"]["containers"][0]["name"]
        told = {"phase": phase, **status}
        if state is not None:
            told["containerStatuses"] = [{"name": "sidecar", "state": {}}, {"name": name, "state": state}]
        self._put({**pod, "status": told})

    def _put(self, held: Object) -> None:
        meta = held["metadata"]
        rest = {key: value for key, value in held.items() if key not in ("apiVersion", "kind")}
        self.put(held["kind"], meta["name"], meta["namespace"], **rest)

    def _create(self, kind: Kind, namespace: str, body: Object) -> Object:
        made = super()._create(kind, namespace, body)
        if kind.kind == "Job" and self.controls:
            for index in range(made["spec"]["completions"]):
                self._put(self._made(made, index))
        return made

    def _made(self, job: Object, index: int) -> Object:
        """A pod as the controller makes it."""
        meta, template = job["metadata"], deepcopy(job["spec"]["template"])
        name = f"{meta['name']}-{index}-{uuid.uuid4().hex[:5]}"
        given = template["metadata"].get("labels", {}) | {
            "batch.kubernetes.io/job-name": meta["name"],
            INDEX: str(index),
        }
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        told = template["metadata"].get("annotations", {}) | {INDEX: str(index)}
        named = {"name": name, "namespace": meta["namespace"], "labels": given, "annotations": told}
        template["spec"]["hostname"] = f"{meta['name']}-{index}"
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, "ownerReferences": [owner]}}
        return {**made, "spec": template["spec"], "status": {"phase": "Pending"}}

    def _control(self, pod: Object) -> None:
        """Complete when all have succeeded; failed, and the others deleted, when one has not."""
        with self.changed:
            uid = pod["metadata"]["ownerReferences"][0]["uid"]
            job = next((one for one in self.all("Job") if one["metadata"]["uid"] == uid), None)
            if job is None or job.get("status", {}).get("conditions"):
                return
            own = [one for one in self.pods() if one["metadata"]["ownerReferences"][0]["uid"] == uid]
            phases = [one["status"]["phase"] for one in own]
            if "Failed" in phases:
                self.condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
                self._end([one for one in own if one["status"]["phase"] in ("Pending", "Running")])
            elif phases.count("Succeeded") == job["spec"]["completions"]:
                self.condition("Complete")

    def _end(self, pods: list[Object]) -> None:
        for pod in pods:
            if self.lingers:
                pod["metadata"]["deletionTimestamp"] = stamped_now()
                self._put(pod)
            else:
                self.vanish(pod)

    def _delete(self, kind: Kind, namespace: str, name: str, options: Object) -> Object:
        with self.changed:
            held = self._table(kind).get((namespace, name))
            if held is None:
                raise RefusedError(404, "NotFound", f'{kind.plural} "{name}" not found')
            uid, wanted = held["metadata"]["uid"], options.get("preconditions", {}).get("uid")
            if wanted not in (None, uid):
                raise RefusedError(409, "Conflict", f"the UID in the precondition ({wanted}) does not match")
            if kind.kind != "Job":
                self.delete(kind.kind, name, namespace)
                return {"kind": "Status", "status": "Success"}
            told = deepcopy(held)
            told["metadata"]["deletionTimestamp"] = stamped_now()
            self._put(told)
            self._end([one for one in self.pods() if one["metadata"]["ownerReferences"][0]["uid"] == uid])
            self._collect(uid, at_once=options.get("propagationPolicy") != "Foreground")
            return told

    def _collect(self, uid: str, *, at_once: bool = False) -> None:
        """A Job that is deleted goes once its pods have, and what it owns with it."""
        job = next((one for one in self.all("Job") if one["metadata"]["uid"] == uid), None)
        pods = [one for one in self.pods() if one["metadata"]["ownerReferences"][0]["uid"] == uid]
        if job is None or not job["metadata"].get("deletionTimestamp") or (pods and not at_once):
            return
        self.delete("Job", job["metadata"]["name"], job["metadata"]["namespace"])
        for kind in ("Secret", "Service"):
            for one in self.all(kind):
                if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences", [])):
                    self.delete(kind, one["metadata"]["name"], one["metadata"]["namespace"])

    def _list(self, kind: Kind, namespace: str, query: dict[str, str]) -> Object:
        if kind != EVENTS:
            return super()._list(kind, namespace, query)
        wanted = dict(term.split("=") for term in query["fieldSelector"].split(","))
        items = [
            one
            for one in self.events
            if all(one["involvedObject"][key.removeprefix("involvedObject.")] == value for key, value in wanted.items())
        ]
        return {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": items}

    def _log(self, namespace: str, name: str, query: dict[str, str]) -> bytes:
        with self.changed:
            pod = self._one(self._kind("Pod"), namespace, name)
            if "containerStatuses" not in pod["status"] or name not in self.logs:
                raise RefusedError(400, "BadRequest", f'container "{query["container"]}" is waiting to start')
            lines = self.logs[name].splitlines(keepends=True)
        return b"".join(lines[-int(query["tailLines"]) :])
