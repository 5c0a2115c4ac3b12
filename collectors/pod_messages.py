"""The messages of the kubelet's pod-resources API, version 1, as far as they are read: a table of fields by number.

Rule of this file: the table is the API's ``.proto`` (k8s.io/kubelet/pkg/apis/podresources/v1) and is written by hand
from it; classes are built from it as the program runs. Generated code is not kept, because it insists on the release of
protobuf that generated it, or one newer, and the collector shares an environment with whatever its users install; this
needs none in particular. A field that a kubelet adds is passed over, as protobuf does. Numbers are never used again for
another field, so what stands here stays right. ``tests/collectors/test_pod_messages.py`` holds it to bytes that the
published Go package wrote.
"""

from typing import Any, NamedTuple

PACKAGE = "v1"
#: What is called on the socket, and whether there are more: ``Get`` asks for one pod, and is not used.
LIST = f"/{PACKAGE}.PodResourcesLister/List"


class Field(NamedTuple):
    """``kind`` is "string", "int64", "uint64" or the name of a message; ``many``: a list of it."""

    name: str
    number: int
    kind: str = "string"
    many: bool = False


MESSAGES: dict[str, tuple[Field, ...]] = {
    "ListPodResourcesRequest": (),
    "ListPodResourcesResponse": (Field("pod_resources", 1, "PodResources", many=True),),
    "PodResources": (
        Field("name", 1),
        Field("namespace", 2),
        Field("containers", 3, "ContainerResources", many=True),
    ),
    "ContainerResources": (
        Field("name", 1),
        Field("devices", 2, "ContainerDevices", many=True),
        Field("cpu_ids", 3, "int64", many=True),
        Field("memory", 4, "ContainerMemory", many=True),
        Field("dynamic_resources", 5, "DynamicResource", many=True),
    ),
    "ContainerMemory": (Field("memory_type", 1), Field("size", 2, "uint64"), Field("topology", 3, "TopologyInfo")),
    "ContainerDevices": (
        Field("resource_name", 1),
        Field("device_ids", 2, many=True),
        Field("topology", 3, "TopologyInfo"),
    ),
    "TopologyInfo": (Field("nodes", 1, "NUMANode", many=True),),
    "NUMANode": (Field("ID", 1, "int64"),),
    # Field 1 was the claim's class, until 1.31.
    "DynamicResource": (
        Field("claim_name", 2),
        Field("claim_namespace", 3),
        Field("claim_resources", 4, "ClaimResource", many=True),
    ),
    "ClaimResource": (
        Field("cdi_devices", 1, "CDIDevice", many=True),
        Field("driver_name", 2),
        Field("pool_name", 3),
        Field("device_name", 4),
        Field("share_id", 5),
    ),
    "CDIDevice": (Field("name", 1),),
}


def classes() -> dict[str, Any]:
    """A class for each message, by its name. Imports protobuf."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="podresources/v1/api.proto", package=PACKAGE, syntax="proto3")
    for message, fields in MESSAGES.items():
        made = file.message_type.add(name=message)
        for field in fields:
            label = kinds.LABEL_REPEATED if field.many else kinds.LABEL_OPTIONAL
            if field.kind in MESSAGES:
                of = {"type": kinds.TYPE_MESSAGE, "type_name": f".{PACKAGE}.{field.kind}"}
            else:
                of = {"type": getattr(kinds, f"TYPE_{field.kind.upper()}")}
            made.field.add(name=field.name, number=field.number, label=label, **of)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}
