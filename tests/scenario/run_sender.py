"""Runners that send results: the manifests of what a run made, and the uploads of their blobs."""
import json
import secrets

from run_world import Runner, opened, stated
from sijil_test import sha256

LOG, METRICS = "application/vnd.sijil.run-log.v1", "application/vnd.sijil.run-metrics.v1"
contents = {}  # of the blobs that results name, by digest


class Sender(Runner):
    """A runner that uploads the blobs of its result first, as the real one does."""

    def __init__(self, world, **place):
        super().__init__(world, **place)
        self.sent = set()

    def upload(self, bundle, manifests, port=None):
        """What this lease has not uploaded yet. After the end of the lease it can't."""
        answer = self.token(bundle, port)
        if answer.status != 200:
            return
        places = {one["name"]: one["repository"] for one in opened(bundle["order"])[0]["spec"]["outputs"]}
        first = opened(bundle["order"])[0]["spec"]["outputs"][0]["repository"]
        for name, text in manifests.items():
            value = json.loads(text) if isinstance(text, str) else {"config": {"digest": ""}, "layers": []}
            for digest in [one["digest"] for one in [value["config"], *value["layers"]]]:
                mark = (bundle["lease"], places.get(name, first), digest)
                if digest not in contents or mark in self.sent:
                    continue
                sent = self.send(answer.json["access_token"], mark[1], contents[digest], port=port)
                assert sent.status == 201, (sent.status, sent.body)
                self.sent.add(mark)

    def finish(self, bundle, text, manifests, port=None):
        self.upload(bundle, manifests, port)
        return super().finish(bundle, text, manifests, port)


def manifest(kind, title, content, **members):
    """The text of a manifest with one layer, whose blobs a Sender uploads."""
    contents.update({sha256(blob): blob for blob in (b"{}", content)})
    layer = {"mediaType": "application/octet-stream", "digest": sha256(content), "size": len(content), "annotations": {"org.opencontainers.image.title": title}}
    config = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": sha256(b"{}"), "size": 2}
    return json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": kind, "config": config,
                       "layers": [layer], "annotations": stated(), **members})


def produced(content=None, outputs=("model",), metrics=b'{"loss": 1}\n', **members):
    """The manifests of a successful run, by name."""
    content = content or secrets.token_bytes(40)
    made = {name: manifest("application/vnd.example+json", name + ".bin", name.encode() + content, **members) for name in outputs}
    made["log"] = manifest(LOG, "log.txt", b"epoch 1\n" + content, **members)
    if metrics:
        made["metrics"] = manifest(METRICS, "metrics.jsonl", metrics, **members)
    return made


def digests(made):
    return {name: sha256(text.encode()) for name, text in made.items() if name != "metrics"}


def result(runner, bundle, made, **more):
    return runner.result(bundle, digests(made), sha256(made["metrics"].encode()) if "metrics" in made else None, **more)
