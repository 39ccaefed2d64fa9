"""Container images made in a test: an image layout (OCI image-spec) of layers that the test fills, byte for byte."""
import gzip
import hashlib
import io
import json
import os
import tarfile

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Image:
    def __init__(self, folder):
        self.folder, self.layers, self.differences, self.blobs = folder, [], [], {}

    # ---- entries of a layer ----

    @staticmethod
    def file(data=b"", mode=0o644, **more):
        return {"data": data, "mode": mode, **more}

    @staticmethod
    def file_of(path, mode=0o755):
        with open(path, "rb") as file:
            return {"data": file.read(), "mode": mode}

    @staticmethod
    def folder_entry(mode=0o755):
        return {"type": tarfile.DIRTYPE, "mode": mode}

    @staticmethod
    def link(target):
        return {"type": tarfile.SYMTYPE, "linkname": target, "mode": 0o777}

    @staticmethod
    def hard_link(target):
        return {"type": tarfile.LNKTYPE, "linkname": target, "mode": 0o644}

    # ---- layers ----

    @staticmethod
    def tar(entries):
        """`entries`: a dict, or a list of pairs if a name comes twice."""
        text = io.BytesIO()
        with tarfile.open(fileobj=text, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, entry in entries.items() if isinstance(entries, dict) else entries:
                member = tarfile.TarInfo(name)
                for key, value in entry.items():
                    if key != "data":
                        setattr(member, key, value)
                member.size = len(entry.get("data", b""))
                archive.addfile(member, io.BytesIO(entry.get("data", b"")))
        return text.getvalue()

    def add_layer(self, entries, media_type=LAYER):
        self.add_tar(self.tar(entries), media_type)
        return self

    def add_tar(self, tar, media_type=LAYER):
        packed = gzip.compress(tar, 6) if media_type.endswith("gzip") else tar
        self.layers.append({"mediaType": media_type, **self.blob(packed)})
        self.differences.append("sha256:" + hashlib.sha256(tar).hexdigest())

    def without_layers(self):
        self.layers, self.differences = [], []
        return self

    def blob(self, data):
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"digest": digest, "size": len(data)}

    # ---- the whole ----

    def manifest(self, **more):
        config = {"architecture": "amd64", "os": "linux", "config": {"Env": ["FROM_IMAGE=1"], "Entrypoint": ["/no/such"]},
                  "rootfs": {"type": "layers", "diff_ids": self.differences}}
        value = {"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": CONFIG, **self.blob(json.dumps(config).encode())}, "layers": self.layers}
        return json.dumps({**value, **more}).encode()

    def write(self, **more):
        """Writes the layout; returns its folder."""
        text = self.manifest(**more)
        described = {"mediaType": MANIFEST, **self.blob(text)}
        os.makedirs(os.path.join(self.folder, "blobs/sha256"), exist_ok=True)
        for digest, data in self.blobs.items():
            with open(os.path.join(self.folder, "blobs/sha256", digest[7:]), "wb") as file:
                file.write(data)
        for name, value in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", {"schemaVersion": 2, "manifests": [described]})):
            with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
                json.dump(value, file)
        return self.folder
