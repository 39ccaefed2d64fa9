"""script/sbom: what CycloneDX 1.5 requires, and that it says what the programs and dpkg say."""
import functools
import hashlib
import json
import os
import re
import subprocess
import sys

import jsonschema

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# The members of bom-1.5.schema.json that it requires or bounds, for the parts that are used here.
HASH = {"type": "object", "required": ["alg", "content"], "additionalProperties": False, "properties": {
    "alg": {"enum": ["MD5", "SHA-1", "SHA-256", "SHA-384", "SHA-512", "SHA3-256", "SHA3-384", "SHA3-512"]},
    "content": {"pattern": "^([a-fA-F0-9]{32}|[a-fA-F0-9]{40}|[a-fA-F0-9]{64}|[a-fA-F0-9]{96}|[a-fA-F0-9]{128})$"}}}
COMPONENT = {"type": "object", "required": ["type", "name"], "additionalProperties": False, "properties": {
    "type": {"enum": ["application", "framework", "library", "container", "platform", "operating-system", "device",
                      "device-driver", "firmware", "file", "machine-learning-model", "data"]},
    "bom-ref": {"type": "string", "minLength": 1}, "name": {"type": "string"}, "version": {"type": "string"},
    "purl": {"type": "string"}, "hashes": {"type": "array", "items": HASH},
    "licenses": {"type": "array", "items": {"type": "object", "required": ["license"], "properties": {
        "license": {"oneOf": [{"required": ["id"]}, {"required": ["name"]}]}}}},
    "properties": {"type": "array", "items": {"type": "object", "additionalProperties": False, "properties": {
        "name": {"type": "string"}, "value": {"type": "string"}}}},
    "externalReferences": {"type": "array", "items": {"type": "object", "required": ["url", "type"]}}}}
SCHEMA = {"type": "object", "required": ["bomFormat", "specVersion"], "additionalProperties": False, "properties": {
    "bomFormat": {"const": "CycloneDX"}, "specVersion": {"const": "1.5"}, "version": {"type": "integer", "minimum": 1},
    "serialNumber": {"pattern": "^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    "metadata": {"type": "object", "additionalProperties": False, "properties": {
        "component": COMPONENT, "tools": {"type": "object", "properties": {"components": {"type": "array", "items": COMPONENT}}}}},
    "components": {"type": "array", "items": COMPONENT, "uniqueItems": True},
    "dependencies": {"type": "array", "uniqueItems": True, "items": {
        "type": "object", "required": ["ref"], "additionalProperties": False, "properties": {
            "ref": {"type": "string", "minLength": 1}, "dependsOn": {"type": "array", "uniqueItems": True}}}}}}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


@functools.cache
def version(package):
    return run("dpkg-query", "-W", "-f", "${Version}", package)


def main():
    text = run(os.path.join(ROOT, "script", "sbom"), "--build", BUILD)
    assert text == run(os.path.join(ROOT, "script", "sbom"), "--build", BUILD), "the same build gives another document"
    document = json.loads(text)
    jsonschema.validate(document, SCHEMA)

    components = {component["bom-ref"]: component for component in document["components"]}
    assert len(components) == len(document["components"]), "a bom-ref stands twice"
    known = set(components) | {document["metadata"]["component"]["bom-ref"]}
    for edge in document["dependencies"]:
        assert {edge["ref"], *edge["dependsOn"]} <= known, edge
    assert {edge["ref"] for edge in document["dependencies"]} == known

    files, mapped = {}, set()
    for component in components.values():
        for entry in component.get("properties", []):
            if entry["name"].startswith("sijil:file:"):
                files[entry["name"].removeprefix("sijil:file:")] = (component, entry["value"])
    for program in ("sijil", "sijil-keyd", "sijil-runner", "sijil-audit-dump", "sijil-verify", "sijil-witness", "sijild"):
        path = os.path.join(BUILD, "cmd", program)
        with open(path, "rb") as file:
            assert components[f"program/{program}"]["hashes"][0]["content"] == hashlib.sha256(file.read()).hexdigest()
        for library, place in re.findall(r"^\s*(\S+) => (/\S+) \(", run("ldd", path), flags=re.M):
            component, digest = files[library]  # all that the loader maps is there
            mapped.add(library)
            with open(place, "rb") as file:
                assert digest == "sha256:" + hashlib.sha256(file.read()).hexdigest(), library
            assert component["version"] == version(component["name"] + (":amd64" if "arch=amd64" in component["purl"] else "")), component

        # What the linker wrote into the program is what the document says that it needs: no more, and no less.
        asked = set(re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", path)))
        packages = {files[library][0]["bom-ref"] for library in asked if library in files}
        edge = next(edge for edge in document["dependencies"] if edge["ref"] == f"program/{program}")
        assert set(edge["dependsOn"]) == packages, (program, set(edge["dependsOn"]) ^ packages)
    for name, packages in (("sijil-inside", ["deb/libc6-dev"]), ("sijil-pod", ["deb/libc6-dev", "deb/libseccomp-dev"])):  # linked statically
        path = os.path.join(BUILD, "cmd", name)
        with open(path, "rb") as file:
            assert components[f"program/{name}"]["hashes"][0]["content"] == hashlib.sha256(file.read()).hexdigest()
        assert "NEEDED" not in run("readelf", "-d", path)
        assert sorted(next(edge for edge in document["dependencies"] if edge["ref"] == f"program/{name}")["dependsOn"]) == packages, name
    mapped |= {"libc.a", "libseccomp.a"}
    assert set(files) == mapped, f"in the document, and mapped by no program: {set(files) - mapped}"

    # Every library that the build asks for by name has its reason in the document, and the page has the table.
    stated = re.findall(r"^sijil_package\(\w+ ([\w.+-]+)>=", open(os.path.join(ROOT, "cmake", "SijilPackages.cmake"),
                                                                 encoding="utf-8").read(), flags=re.M)
    named = {entry["value"] for component in components.values() for entry in component.get("properties", [])
             if entry["name"] == "sijil:module"}
    assert len(stated) >= 10 and named >= set(stated), set(stated) - named
    table = run(os.path.join(ROOT, "script", "sbom"), "--table")
    with open(os.path.join(ROOT, "docs", "supply-chain.md"), encoding="utf-8") as page:
        assert table in page.read(), "docs/supply-chain.md is behind cmake/SijilPackages.cmake: script/sbom --table"
    print(f"ok: {len(components)} components")


main()
