"""What CI systems give to a job: tokens with their claims, and the commands of a pipeline as `sijil ci init` prints it."""
import http.server
import json
import os
import re
import threading

import yaml

# Claims as the systems write them; ids are those of a public repository and project.
SHAPES = {
    "github": ("https://token.actions.githubusercontent.com", {
        "sub": "repo:acme/train:ref:refs/heads/main", "repository": "acme/train", "repository_id": "260064828", "repository_owner": "acme",
        "repository_owner_id": "1342004", "repository_visibility": "private", "ref": "refs/heads/main", "ref_protected": "true", "ref_type": "branch",
        "event_name": "push", "actor": "ann", "actor_id": "71", "workflow": "model", "head_ref": "", "base_ref": "", "run_id": "90210", "run_number": "7",
        "run_attempt": "1", "sha": "9c1f" * 10, "job_workflow_ref": "acme/train/.github/workflows/model.yml@refs/heads/main",
        "workflow_ref": "acme/train/.github/workflows/model.yml@refs/heads/main", "runner_environment": "github-hosted"}),
    "gitlab": ("https://gitlab.com", {
        "sub": "project_path:acme/train:ref_type:branch:ref:main", "project_id": "20", "project_path": "acme/train", "namespace_id": "72",
        "namespace_path": "acme", "user_id": "1", "user_login": "ann", "pipeline_id": "574", "pipeline_source": "push", "job_id": "302", "ref": "main",
        "ref_type": "branch", "ref_path": "refs/heads/main", "ref_protected": "true", "runner_environment": "gitlab-hosted", "sha": "7149" * 10,
        "ci_config_ref_uri": "gitlab.com/acme/train//.gitlab-ci.yml@refs/heads/main"}),
    "jenkins": ("https://jenkins.example/oidc", {"sub": "https://jenkins.example/job/model/", "build_number": 12, "jti": "jenkins-model-12"}),
    "kubernetes": ("https://kubernetes.default.svc", {
        "sub": "system:serviceaccount:ci:model",
        "kubernetes.io": {"namespace": "ci", "node": {"name": "n1", "uid": "4e1e6c7c-0a54-4e3c-8a9c-1f8b3d9f2a10"},
                          "pod": {"name": "model-x", "uid": "9c5e1f52-2f2c-4c43-9a57-6f6f4b6c1d11"},
                          "serviceaccount": {"name": "model", "uid": "0b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"}}}),
}


def filled_in(rule):
    """A rule that `sijil ci init --rule` prints, with ids in place of what is in capitals."""
    for blank, value in (("ID-OF-THE-REPOSITORY", "260064828"), ("ID-OF-ITS-OWNER", "1342004"), ("ID-OF-THE-PROJECT", "20"), ("https://JENKINS", "https://jenkins.example"),
                         ("https://ISSUER-OF-THE-CLUSTER", SHAPES["kubernetes"][0]), ("UID-OF-THE-SERVICE-ACCOUNT", "0b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"),
                         ("NAMESPACE", "ci")):
        rule = rule.replace(blank, value)
    return json.loads(rule)


def commands_of(system, text, folder, job="model"):
    """The lines that the system would give to a shell. `folder`: where the token of a pod is."""
    if system == "github":
        return [step["run"] for step in yaml.safe_load(text)["jobs"][job]["steps"] if "run" in step]
    if system == "gitlab":
        return yaml.safe_load(text)[job]["script"]
    if system == "jenkins":
        return re.findall(r"^ *sh '(.*)'$", text, re.MULTILINE)
    container = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]
    return container["args"][0].replace("/var/run/sijil", folder).splitlines()


class Actions(http.server.BaseHTTPRequestHandler):
    """The token endpoint of a job of GitHub Actions."""

    def do_GET(self):
        server = self.server
        right = self.headers["Authorization"] == "Bearer the-jobs-own" and self.path == f"/token?api-version=2.0&audience={server.audience}"
        answer = json.dumps({"count": 1, "value": server.make_token()} if right else {}).encode()
        self.send_response(200 if right else 403)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def actions(folder, audience, make_token):
    """The environment of a job of GitHub Actions; `make_token`: makes the token for each request."""
    import issuer  # sijil_test finds it, and need not be imported first
    place = os.path.join(folder, "actions")
    os.makedirs(place)
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Actions)
    listening.daemon_threads, listening.audience, listening.make_token = True, audience, make_token
    listening.socket = issuer.certify(place).wrap_socket(listening.socket, server_side=True)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return {"ACTIONS_ID_TOKEN_REQUEST_URL": f"https://localhost:{listening.server_port}/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "the-jobs-own", "CURL_CA_BUNDLE": os.path.join(place, "tls.pem"), "GITHUB_SHA": "9c1f" * 10}
