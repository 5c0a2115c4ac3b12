"""docs/kubernetes.md, typed as written: what its commands ask of docker, kubectl and helm is what the chart installs.

Rule of this file: a shell runs each block of the page; stand-ins for the three programs write down what they are asked.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.chart import files as source
from experiments.chart.render import CHART, ToolsError, case, pod_of, programs, template
from paceline import rights

pytestmark = pytest.mark.slow

#: Files that the page says its reader has: an authority, and a password for each user.
GIVEN = {"ca.pem", "admin.password", *(f"{service}.password" for service in rights.default_principals())}
STAND_IN = '#!/bin/sh\nprintf "%s" "${0##*/}" >>"$ASKED"; printf "\\t%s" "$@" >>"$ASKED"; echo >>"$ASKED"\n'


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        programs()
    except ToolsError as error:
        pytest.skip(str(error))


def page() -> str:
    return source.PAGE.read_text(encoding="utf-8")


def values(word: str) -> Any:
    """The block of values on the page that has ``word`` in it."""
    (block,) = (one for one in re.findall(r"```yaml\n# values\.yaml\n(.*?)```", page(), flags=re.S) if word in one)
    return yaml.safe_load(block)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Every call that the page's blocks make of docker, kubectl and helm, in order."""
    folder = tmp_path_factory.mktemp("page")
    programs_ = folder / "bin"
    programs_.mkdir()
    for name in ("docker", "kubectl", "helm"):
        (programs_ / name).write_text(STAND_IN)
        (programs_ / name).chmod(0o755)
    for name in GIVEN:
        (folder / name).write_text("x")
    path = os.pathsep.join([str(programs_), str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {**os.environ, "PATH": path, "ASKED": str(folder / "asked")}
    for block in re.findall(r"^( *)```sh\n(.*?)```", page(), flags=re.S | re.M):
        done = subprocess.run(["bash", "-euc", block[1]], cwd=folder, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, f"{block[1]}\n{done.stderr}"
    return [line.split("\t") for line in (folder / "asked").read_text().splitlines()]


def images(objects: list[Any]) -> set[str]:
    pods = [pod for one in objects if (pod := pod_of(one))]
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


def test_the_images_that_are_pushed_are_those_that_are_pulled(asked: list[list[str]]) -> None:
    """Else a pod of a first installation waits for ever for its image."""
    pushed = {words[2] for words in asked if words[:2] == ["docker", "push"]}
    built = {words[words.index("-t") + 1] for words in asked if words[:2] == ["docker", "build"]}
    (install,) = (words for words in asked if words[:2] == ["helm", "install"])
    pulled = {image for image in images(template(4, *install[4:])) if "/kafka:" not in image}
    assert pulled == pushed == built


def created(asked: list[list[str]]) -> dict[str, set[str]]:
    """Secret -> its keys, of those that the page makes in the release's namespace."""
    found: dict[str, set[str]] = {}
    for words in asked:
        if words[0] == "kubectl" and words[2:6] == ["paceline", "create", "secret", "generic"]:
            keys = [word.removeprefix("--from-file=") for word in words[7:]]
            found[words[6]] = {key.partition("=")[0] for key in keys}
    return found


def mounted(objects: list[Any]) -> dict[str, set[str]]:
    """Secret -> the keys of it that pods mount."""
    found: dict[str, set[str]] = {}
    for volume in (volume for one in objects if (pod := pod_of(one)) for volume in pod["spec"].get("volumes", ())):
        for source_ in volume.get("projected", {}).get("sources", [volume]):
            if secret := source_.get("secret"):
                name = secret.get("name") or secret["secretName"]
                found.setdefault(name, set()).update(item["key"] for item in secret["items"])
    return found


def test_every_secret_of_the_services_logins_is_made(asked: list[list[str]], tmp_path: Path) -> None:
    """With the keys that pods mount: a pod waits for ever for a Secret that is not there."""
    written = tmp_path / "values.yaml"
    written.write_text(yaml.safe_dump(values("users:")))
    needed = mounted(template(4, "--values", str(written), "--set", "tokens.secret=paceline-tokens"))
    made = created(asked)
    assert needed
    missing = {name: sorted(keys - made.get(name, set())) for name, keys in needed.items()}
    assert {name: keys for name, keys in missing.items() if keys} == {}


def objects_of(name: str) -> list[tuple[str, str, dict[str, str]]]:
    """Kind, name and labels of what is there: the objects of the case, their pods and their claims."""
    found = []
    for one in case(name):
        found.append((one["kind"].lower(), one["metadata"]["name"], one["metadata"]["labels"]))
        if pod := pod_of(one):
            found.append(("pod", "", pod["metadata"]["labels"]))
        for claim in one.get("spec", {}).get("volumeClaimTemplates", ()):
            found.append(("pvc", "", claim["metadata"]["labels"]))
    return found


def test_what_kubectl_is_asked_for_is_there(asked: list[list[str]]) -> None:
    """Names of deployments and services, and labels that select something."""
    there = [*objects_of("default"), *objects_of("strimzi")]
    selected = named = 0
    for words in (words for words in asked if words[0] == "kubectl"):
        for word in words:
            if re.fullmatch(r"(deployment|service)/[\w-]+", word):
                named += 1
                assert tuple(word.split("/")) in {(kind, name) for kind, name, _ in there}, words
        if "--selector" in words:
            verb, *kinds = words[3 : words.index("--selector")]
            wanted = dict(pair.split("=") for pair in words[words.index("--selector") + 1].split(","))
            if any(key.startswith("strimzi.io/") for key in wanted):
                continue  # Labels that the operator gives.
            for kind in kinds[0].split(",") if kinds else ["pod"]:
                selected += 1
                assert verb in {"logs", "delete"}
                assert [1 for its, _, labels in there if its == kind and wanted.items() <= labels.items()], words
    assert selected >= 4
    assert named >= 2


def test_claims_that_stay_are_all_named() -> None:
    """What `helm uninstall` leaves: the claims of StatefulSets."""
    staying = {
        one["metadata"]["labels"]["app.kubernetes.io/component"]
        for one in case("default")
        if one.get("spec", {}).get("volumeClaimTemplates")
    }
    (sentence,) = re.findall(r"leaves the claims of ([^.]*?), and with", page())
    assert set(re.findall(r"\w+", sentence.lower())) - {"and"} == staying


def test_every_part_is_in_the_table_of_parts() -> None:
    table = page().partition("## Parts\n")[2].partition("\n\n**")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", table, flags=re.M))
    installed = {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: one["kind"]
        for one in (*case("everything"), *case("default"))
        if pod_of(one) and one["kind"] != "Pod"
    }
    assert rows == installed


def test_the_chart_is_where_the_page_says(asked: list[list[str]]) -> None:
    charts = {words[3] for words in asked if words[:2] in (["helm", "install"], ["helm", "upgrade"])}
    assert charts == {str(CHART.relative_to(source.PAGE.parents[1]))}
