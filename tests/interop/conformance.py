#!/usr/bin/env python3
"""The official OCI conformance suite against a fresh registry, over TLS with a login, once for each version of the
specification (docs/conformance.md). INTEROP_PROGRAMS is its folder; INTEROP_RESULTS is the folder for its reports.

Its result must be: nothing failed, each interface of this registry passed, and exactly those tests were left out that
docs/conformance.md names. The numbers of tests differ from run to run, so they are not compared."""
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
import sijil_test
from sijil_test import Server

SUITE = os.path.join(os.environ["INTEROP_PROGRAMS"], "conformance")
RESULTS = os.environ["INTEROP_RESULTS"]
server = Server()
state = {}

APIS = {"Ping", "Tag listing", "Tag delete", "Tag delete atomic", "Blob push", "Blob post only", "Blob post put",
        "Blob chunked", "Blob streaming", "Blob mount", "Blob get", "Blob get range", "Blob head", "Blob delete",
        "Blob delete atomic", "Manifest put by digest", "Manifest put by tag", "Manifest put with subject",
        "Manifest get by digest", "Manifest get by tag", "Manifest head by digest", "Manifest head by tag",
        "Manifest delete", "Manifest delete atomic", "Referrers", "Blob upload cancel", "Manifest put with tag params",
        "Blob anonymous mount"}
DATA = {"Artifact", "Artifact Index", "Artifact without Layers", "Artifacts with Subject", "Bad Digest Image",
        "Blobs sha256", "Blobs sha512", "Custom Fields", "Data Field", "Digest Algorithm sha512", "Empty Index", "Image",
        "Image Uncompressed", "Image with Large Manifest", "Index", "Index with Subject", "Invalid Manifest Digest",
        "Missing Subject", "Nested Index", "No Layers", "Non-distributable Layers", "Tag Param", "Tag Param sha512",
        "Sparse Manifests"}
# The tests that do not pass, by version: interfaces, data, and names of tests. "Disabled": the suite leaves it out at
# that version. "Skip": this registry does not have it. docs/conformance.md has the reasons.
UNCOVERED_MOUNT = ["*/mount/blob-mount"]  # the cached token is only for the target: 202, and the client sends the bytes
NO_ANONYMOUS_MOUNT = {"Blob anonymous mount": "Skip"}
NO_CANCEL = ["*/post cancel/blob-post-cancel"]
NO_TAG_PARAMS = {"Sparse Manifests": "Disabled", "Tag Param": "Disabled", "Tag Param sha512": "Disabled"}
LEFT_OUT = {
    "1.0": ({"Blob upload cancel": "Disabled", "Manifest put with tag params": "Disabled", "Referrers": "Disabled",
             "Blob anonymous mount": "Disabled"},
            NO_TAG_PARAMS, ["*/blob-mount-anonymous", *NO_CANCEL, "*/empty/referrers", "*-subject/referrers"]),
    "1.1": ({"Blob upload cancel": "Disabled", "Manifest put with tag params": "Disabled", **NO_ANONYMOUS_MOUNT},
            NO_TAG_PARAMS, ["*/blob-mount-anonymous", *NO_CANCEL]),
    "dev": (NO_ANONYMOUS_MOUNT, {"Sparse Manifests": "Disabled"}, ["*/blob-mount-anonymous"]),
}


def run_suite(version, folder, caches):
    """Without cached tokens each request is challenged first, so that a mount asks for both repositories."""
    repository = "main/models/conformance-" + version.replace(".", "-") + ("-cached" if caches else "")
    environment = {"PATH": os.environ["PATH"], "HOME": server.root, "SSL_CERT_FILE": server.ca_file,
                   "OCI_REGISTRY": f"127.0.0.1:{server.port}", "OCI_TLS": "enabled", "OCI_VERSION": version,
                   "OCI_REPO1": repository + "/one", "OCI_REPO2": repository + "/two", "OCI_RESULTS_DIR": folder,
                   "OCI_USERNAME": state["login"][0], "OCI_PASSWORD": state["login"][1], "OCI_CACHE_AUTH": str(caches).lower()}
    with open(folder + ".txt", "w", encoding="utf-8") as log:
        done = subprocess.run([SUITE], env=environment, cwd=server.root, stdin=subprocess.DEVNULL, stdout=log,
                              stderr=log, timeout=500, check=False)
    assert done.returncode == 0, f"the suite ended with {done.returncode}: {folder}.txt"


def section(text, name):
    """The entries of one member of results.yaml, all of the form ` Name: Status`."""
    body = re.search(rf"^{name}:\n((?:  .*\n?)*)", text, re.MULTILINE)
    assert body, f"results.yaml has no {name}"
    return dict(re.fullmatch(r"  \"?(.+?)\"?: (\w+)", line).groups() for line in body[1].splitlines())


def check_states(found, names, left_out):
    wanted = {name: left_out.get(name, "Pass") for name in names}
    wrong = {name: (found.get(name), wanted.get(name)) for name in found.keys() | wanted.keys()
             if found.get(name) != wanted.get(name)}
    assert not wrong, f"not as docs/conformance.md says (found, wanted): {wrong}"


def check_tests(path, patterns):
    suite = xml.etree.ElementTree.parse(path).getroot()
    tests = [(test.get("name"), test.get("status"), test.findtext("system-out") or "") for test in suite.iter("testcase")]
    failed = [(name, why) for name, status, why in tests if status not in ("passed", "skipped")]
    assert tests and not failed, failed[:5]
    skipped = {name: why for name, status, why in tests if status == "skipped"}
    unargued = [(name, why) for name, why in skipped.items() if not any(fnmatch.fnmatch(name, one) for one in patterns)]
    assert not unargued, f"skipped, and docs/conformance.md does not say why: {unargued}"
    for pattern in patterns:
        assert fnmatch.filter(skipped, pattern), f"{pattern} is skipped no more: say so in docs/conformance.md"


def passes(version, caches=False):
    folder = os.path.join(RESULTS, version + ("-cached" if caches else ""))
    shutil.rmtree(folder, ignore_errors=True)
    run_suite(version, folder, caches)
    with open(folder + "/results.yaml", encoding="utf-8") as file:
        results = file.read()
    assert re.search(rf"^  version: \"?{re.escape(version)}\"?$", results, re.MULTILINE), "the suite ran another version"
    apis, data, tests = LEFT_OUT[version]
    check_states(section(results, "apis"), APIS, apis)
    check_states(section(results, "data"), DATA, data)
    check_tests(folder + "/junit.xml", [*tests, *(UNCOVERED_MOUNT if caches else [])])


def version_1_0():
    passes("1.0")


def version_1_1():
    passes("1.1")


def version_dev():
    passes("dev")


def all_versions_with_cached_tokens():
    """The default of the suite."""
    for version in LEFT_OUT:
        passes(version, caches=True)


os.makedirs(RESULTS, exist_ok=True)
server.start()
state["login"] = sijil_test.make_robot(server, "conformance", "publisher", "main/models")
sijil_test.run(version_1_0, version_1_1, version_dev, all_versions_with_cached_tokens, server=server)
