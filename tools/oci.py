"""Lays out an OCI image for several architectures as a .tar, which container engines load.

    oci.py NAME VERSION CREATED ARCHIVE ARCHITECTURE=LAYER...  <CONFIG

LAYER is the path of a .tar, with its .gz beside it. ARCHITECTURE is one of Debian's names, which are OCI's too. CONFIG
is the JSON of an image's `config`. The same input gives the same bytes.

The archive also holds manifest.json, which Docker reads if it does not keep images in containerd. Such a Docker knows
no images for several architectures, so each has a tag of its own there: VERSION-ARCHITECTURE.
"""

import hashlib
import io
import json
import sys
import tarfile
from datetime import datetime
from pathlib import Path

MEDIA = "application/vnd.oci.image."

name, version, created, archive, *layers = sys.argv[1:]
config = json.load(sys.stdin)
files = {}


def blob(media, content, **more):
    """Adds a blob, and returns its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    files[f"blobs/sha256/{digest}"] = content
    return {"mediaType": MEDIA + media, "digest": f"sha256:{digest}", "size": len(content), **more}


def document(value):
    return json.dumps(value, separators=(",", ":")).encode()


def path(descriptor):
    return "blobs/" + descriptor["digest"].replace(":", "/")


def index(*manifests):
    return {"schemaVersion": 2, "mediaType": MEDIA + "index.v1+json", "manifests": manifests}


manifests, docker = [], []
for architecture, layer in (argument.split("=", 1) for argument in layers):
    platform = {"architecture": architecture, "os": "linux"}
    made = {
        **platform,
        "created": created,
        "config": config,
        "rootfs": {
            "type": "layers",
            "diff_ids": ["sha256:" + hashlib.sha256(Path(layer).read_bytes()).hexdigest()],
        },
        "history": [{"created": created, "created_by": "./build.sh image"}],
    }
    made = blob("config.v1+json", document(made))
    content = blob("layer.v1.tar+gzip", Path(layer + ".gz").read_bytes())
    manifest = {"schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json", "config": made, "layers": [content]}
    manifests.append(blob("manifest.v1+json", document(manifest), platform=platform))
    docker.append(
        {"Config": path(made), "RepoTags": [f"{name}:{version}-{architecture}"], "Layers": [path(content)]}
    )

names = {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"{name}:{version}"}
image = blob("index.v1+json", document(index(*manifests)), annotations=names)
files["index.json"] = document(index(image))
files["manifest.json"] = document(docker)
files["oci-layout"] = document({"imageLayoutVersion": "1.0.0"})
seconds = datetime.fromisoformat(created.replace("Z", "+00:00")).timestamp()
with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
    for path_in_archive, content in sorted(files.items()):
        member = tarfile.TarInfo(path_in_archive)
        member.size, member.mtime = len(content), seconds
        tar.addfile(member, io.BytesIO(content))
