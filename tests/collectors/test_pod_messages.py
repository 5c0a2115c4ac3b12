"""The table of fields against bytes that Kubernetes' own package wrote: k8s.io/kubelet v0.37.2, by Go's protobuf."""

from collectors.pod_messages import MESSAGES, classes

#: Two pods with a device by a plugin and by a claim, processors, memory and NUMA nodes, and a pod with nothing.
GOLDEN = bytes.fromhex(
    "0a7a0a0c6c6c6d2d776f726b65722d3012026d6c1a660a077079746f72636812400a0e6e76696469612e636f6d2f677075122847"
    "50552d35316564303030302d303030302d343030302d383030302d3030303030303030303030301a040a0208011a040001ac0222"
    "130a066d656d6f7279108080808080201a020a000a7c0a0364726112026d6c1a710a01632a6c12036770751a026d6c22610a450a"
    "436b38732e6770752e6e76696469612e636f6d2f636c61696d3d64616235616235302d643539612d343261362d616631362d6366"
    "643436323863306637612d6770752d31120e6770752e6e76696469612e636f6d1a016e22056770752d310a130a046e6f6e65120b"
    "6b7562652d73797374656d"
)


def test_what_kubernetes_wrote_is_read_by_name() -> None:
    """Every field has the number and the kind that the published API gives it; nothing is left unread."""
    response = classes()["ListPodResourcesResponse"]()
    response.ParseFromString(GOLDEN)
    plugin, claim, none = response.pod_resources
    (container,) = plugin.containers

    assert (plugin.name, plugin.namespace, container.name) == ("llm-worker-0", "ml", "pytorch")
    assert (container.devices[0].resource_name, list(container.devices[0].device_ids)) == (
        "nvidia.com/gpu",
        ["GPU-51ed0000-0000-4000-8000-000000000000"],
    )
    assert (container.devices[0].topology.nodes[0].ID, list(container.cpu_ids)) == (1, [0, 1, 300])
    assert (container.memory[0].memory_type, container.memory[0].size) == ("memory", 1 << 40)
    dynamic = claim.containers[0].dynamic_resources[0]
    (resource,) = dynamic.claim_resources
    assert (dynamic.claim_name, dynamic.claim_namespace) == ("gpu", "ml")
    assert (resource.driver_name, resource.pool_name, resource.device_name) == ("gpu.nvidia.com", "n", "gpu-1")
    assert resource.cdi_devices[0].name == "k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-gpu-1"
    assert (none.name, list(none.containers)) == ("none", [])
    assert response.SerializeToString() == GOLDEN


def test_a_field_of_a_newer_kubelet_is_passed_over() -> None:
    """An unknown number is no error."""
    response = classes()["ListPodResourcesResponse"]()
    response.ParseFromString(GOLDEN + bytes.fromhex("fa0703616263"))
    assert len(response.pod_resources) == 3


def test_numbers_are_used_once() -> None:
    for fields in MESSAGES.values():
        assert len({field.number for field in fields}) == len({field.name for field in fields}) == len(fields)
