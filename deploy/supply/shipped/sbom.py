"""`make sbom`: what is in the wheel and in each image, as CycloneDX JSON, the same for the same locks.

Rule of this file: what is listed is what the locks pin; `cyclonedx-py` reads it and checks the result by its schema.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from .locks import IMAGES, LOCKS, ROOT, of_the_wheel

#: Of the format; readers of it are many.
VERSION = "1.6"


def document(requirements: str, name: str) -> bytes:
    """The document of what ``requirements`` pin, for the part of the product with that name.

    Raises:
        subprocess.CalledProcessError: it could not be made, or does not hold to the schema.
    """
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "cyclonedx_py",
        "requirements",
        "--output-reproducible",
        "--validate",
    ]
    command += ["--sv", VERSION, "--of", "JSON", "--pyproject", str(ROOT / "pyproject.toml"), "-"]
    made = subprocess.run(command, input=requirements.encode(), stdout=subprocess.PIPE, check=True)
    told = json.loads(made.stdout)
    told["metadata"]["component"]["name"] = name
    for component in told["components"]:
        # The line it was read from, with each hash: they stand in the component, too, as hashes.
        component.pop("description", None)
    # A lock does not say what asked for what: all is needed by the part as a whole.
    named = sorted(component["bom-ref"] for component in told["components"])
    root = {"ref": told["metadata"]["component"]["bom-ref"], "dependsOn": named}
    told["dependencies"] = [root, *({"ref": name} for name in named)]
    return (json.dumps(told, indent=1, sort_keys=True) + "\n").encode()


def write(folder: Path) -> list[Path]:
    """Write a document for the wheel and for each image; where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"paceline": of_the_wheel()}
    parts |= {f"paceline-{image}": (LOCKS / f"{image}.lock").read_text(encoding="utf-8") for image in IMAGES}
    written = []
    for name, requirements in parts.items():
        path = folder / f"{name}.cdx.json"
        path.write_bytes(document(requirements, name))
        written.append(path)
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What is in the wheel and in each image, as CycloneDX JSON.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist" / "sbom")
    for path in write(parser.parse_args().folder):
        print(path)
