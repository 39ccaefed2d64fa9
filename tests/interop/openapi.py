#!/usr/bin/env python3
"""Foreign readers of the description of the API: openapi-spec-validator reads it, and schemathesis makes requests of it, with an
administrator's token and without one. openapi-python-client makes a client of it, which administers the registry. No request may bring a 500, and each answer must be as the description has it.

INTEROP_OPENAPI is the folder of the two programs; INTEROP_RESULTS is the folder for their reports. EXAMPLES is the number of generated
requests for each operation; tests/interop/schemathesis.toml has the checks that differ from the default."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
import sijil_test
from sijil_test import Server

PROGRAMS, RESULTS = os.environ["INTEROP_OPENAPI"], os.environ["INTEROP_RESULTS"]
CONFIGURATION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemathesis.toml")
EXAMPLES = os.environ.get("EXAMPLES", "30")
server = Server()


def result(name):
    os.makedirs(RESULTS, exist_ok=True)
    return os.path.join(RESULTS, name)


def run(name, *command):
    """Returns whether it succeeded. Its output goes to a file; its end is shown after a failure."""
    with open(result(name), "w", encoding="utf-8") as log:
        done = subprocess.run(command, cwd=server.root, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, timeout=1500,
                              env={**os.environ, "COLUMNS": "150", "REQUESTS_CA_BUNDLE": server.ca_file})
    if done.returncode != 0:
        with open(result(name), encoding="utf-8") as log:
            sys.stderr.write(log.read()[-20000:])
    return done.returncode == 0


def document():
    path = result("openapi.json")
    with open(path, "wb") as file:
        file.write(server.client().call("GET", "/api/v1/openapi.json").body)
    return path


def the_description_is_openapi():
    assert run("openapi-spec-validator.txt", os.path.join(PROGRAMS, "openapi-spec-validator"), document())


def schemathesis(name, *more):
    """Leaves out two checks. One expects that each valid request succeeds, but some are refused, such as rules of a collection that is not
    a dry run. The other uses the id of an organisation in paths, where its name must be."""
    is_good = run(name, os.path.join(PROGRAMS, "schemathesis"), "--config-file", CONFIGURATION, "--no-color", "run", document(), "--url",
                  f"https://127.0.0.1:{server.port}", "--tls-verify", server.ca_file, "--checks", "all", "--exclude-checks", "positive_data_acceptance,ensure_resource_availability", "--max-examples", EXAMPLES,
                  "--seed", "1", "--no-shrink", "--warnings", "off", "--suppress-health-check", "all", "--request-timeout", "60", *more)
    assert not server.crashes(), server.crashes()
    return is_good


def an_administrator_gets_what_is_described():
    """A token lives five minutes, so each part of the API gets a token of its own."""
    with open(document(), encoding="utf-8") as file:
        paths = json.load(file)["paths"]
    bad = []
    for topic in sorted({path.split("/")[3] for path in paths if path.startswith("/api/v1/")}):
        token = server.client(server.admin).token("registry:admin:*", fresh=True)
        if not schemathesis(f"schemathesis-admin-{topic}.txt", "--header", f"Authorization: Bearer {token}", "--include-path-regex",
                            "^/api/v1/" + re.escape(topic) + "(/|$)"):
            bad.append(topic)
    assert not bad, bad


def a_stranger_gets_what_is_described():
    assert schemathesis("schemathesis-stranger.txt", "--include-path-regex", "^/(api/v1/|healthz|readyz|token)", "--phases", "examples,coverage,fuzzing")


def a_client_that_is_made_from_it_works():
    folder = result("client")
    shutil.rmtree(folder, ignore_errors=True)
    assert run("openapi-python-client.txt", os.path.join(PROGRAMS, "openapi-python-client"), "generate", "--path", document(), "--output-path", folder)
    with open(result("openapi-python-client.txt"), encoding="utf-8") as log:
        assert "Unable to parse" not in log.read(), "routes are missing in the client"
    token = server.client(server.admin).token("registry:admin:*", fresh=True)
    assert run("client.txt", "/usr/bin/env", f"PYTHONPATH={folder}", os.path.join(PROGRAMS, "python3"), os.path.join(os.path.dirname(CONFIGURATION), "openapi_client.py"),
               f"https://127.0.0.1:{server.port}", token, server.ca_file)


def the_log_is_whole_after_that():
    """The registry goes on, and its administrator has the same rights."""
    admin = server.client(server.admin)
    assert admin.api("GET", "/self")["kind"] == "robot"
    assert server.client().call("GET", "/readyz").status == 200


server.start()
sijil_test.run(the_description_is_openapi, a_client_that_is_made_from_it_works, an_administrator_gets_what_is_described, a_stranger_gets_what_is_described,
               the_log_is_whole_after_that, server=server)
