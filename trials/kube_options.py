"""What a spec says of Kubernetes: ``executor: {kubernetes: …}``.

Rule of this file: pure data, bounded, and no more than a pod of the level `restricted` may have. What goes into a
manifest from here fits Kubernetes' own grammar.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from paceline.decoders import convert

from .executor import ExecutorError

Label = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")]
Subdomain = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?\Z")]
Key = Annotated[str, Meta(pattern=r"^([a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")]
Value = Annotated[str, Meta(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")]
Quantity = Annotated[str, Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)?\Z")]
Image = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}\Z")]
Path = Annotated[str, Meta(pattern=r"^/[^\x00-\x1f:]{1,500}\Z")]
Seconds = Annotated[float, Meta(ge=1, le=604_800)]
User = Annotated[int, Meta(ge=1, le=2**31 - 1)]
#: Labels and annotations that Paceline or Kubernetes itself writes.
OWN = re.compile(r"(paceline\.dev|([a-z0-9.-]+\.)?kubernetes\.io|([a-z0-9.-]+\.)?k8s\.io)/|job-name\Z|controller-uid\Z")
#: But these, which are there to be written by whoever makes a Job.
OTHERS = re.compile(r"kueue\.x-k8s\.io/|cluster-autoscaler\.kubernetes\.io/")


class Toleration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Of a taint, as a pod's manifest has it."""

    key: Key | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: Value | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Volume(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A claim, a ConfigMap or a Secret of the namespace, where the pods see it."""

    mount: Path
    claim: Subdomain | None = None
    config_map: Subdomain | None = None
    secret: Subdomain | None = None
    read_only: bool = True


class KubernetesOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``executor: {kubernetes: …}`` of a spec, and the trial's name and folder."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    folder: Annotated[str, Meta(min_length=1, max_length=1000)]
    image: Image
    namespace: Label = "default"
    kubeconfig: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    context: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    cpus_per_node: Annotated[int, Meta(ge=1, le=4096)] | None = None
    gpus_per_node: Annotated[int, Meta(ge=0, le=64)] | Literal["ranks"] = 0
    gpu_resource: Annotated[str, Meta(pattern=r"^[a-z0-9.-]{1,200}/[A-Za-z0-9._-]{1,63}\Z")] = "nvidia.com/gpu"
    memory: Quantity | None = None
    shm: Quantity = "1Gi"
    scratch: Quantity = "8Gi"
    exclusive: bool = True
    node_selector: Annotated[dict[Key, Value], Meta(max_length=50)] = {}
    tolerations: Annotated[list[Toleration], Meta(max_length=50)] = []
    volumes: Annotated[list[Volume], Meta(max_length=50)] = []
    secrets: Annotated[list[Subdomain], Meta(max_length=20)] = []
    pull_secrets: Annotated[list[Subdomain], Meta(max_length=20)] = []
    pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    service_account: Subdomain | None = None
    priority_class: Subdomain | None = None
    run_as_user: User | None = None
    fs_group: User | None = None
    labels: Annotated[dict[Key, Value], Meta(max_length=50)] = {}
    annotations: Annotated[dict[Key, Annotated[str, Meta(max_length=4096)]], Meta(max_length=50)] = {}
    parallel: Annotated[int, Meta(ge=1, le=64)] = 1
    #: How long a job may wait for nodes; how long it may stand at what seldom mends itself, as an image that is not
    #: there; how long the API may be away; how late a log may come; how long a Job that ended is kept for us.
    wait_s: Seconds = 3600.0
    stuck_s: Seconds = 180.0
    patience_s: Seconds = 600.0
    late_s: Annotated[float, Meta(ge=0, le=600)] = 20.0
    keep_s: Seconds = 86_400.0


def read(options: Mapping[str, Any]) -> KubernetesOptions:
    """The options, checked.

    Raises:
        ExecutorError: one is not allowed.
    """
    told = {**options, "folder": str(options.get("folder", ""))}
    try:
        made = convert(told, KubernetesOptions, strict=False)
    except msgspec.ValidationError as error:
        own = ", ".join(name for name in KubernetesOptions.__struct_fields__ if name not in ("name", "folder"))
        raise ExecutorError(f"executor.kubernetes: {error}; allowed: {own}") from None
    for key in (*made.labels, *made.annotations):
        if OWN.match(key) and not OTHERS.match(key):
            raise ExecutorError(f"executor.kubernetes: {key} is written by Paceline or Kubernetes; leave it out")
    for at, volume in enumerate(made.volumes):
        if sum(one is not None for one in (volume.claim, volume.config_map, volume.secret)) != 1:
            raise ExecutorError(f"executor.kubernetes.volumes[{at}]: claim, config_map or secret, one of them")
    mounts = [volume.mount.rstrip("/") for volume in made.volumes]
    if clash := next((one for one in mounts if mounts.count(one) > 1 or one in ("/tmp", "/dev/shm", "")), None):  # noqa: S108
        raise ExecutorError(f"executor.kubernetes.volumes: something else is at {clash or '/'}; mount it elsewhere")
    return made
