#!/usr/bin/env python3
"""monitoring/ with a real Prometheus and a real server: rules, their tests, the dashboard's queries, and the alerts of a faulty server.
INTEROP_PROGRAMS is the folder with Debian's package prometheus, unpacked."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../scenario"))
import sijil_test
from sijil_test import Server, children_of, free_port, make_robot, wait_until

MONITORING = os.path.join(HERE, "../../monitoring")
BINARIES = os.path.join(os.environ["INTEROP_PROGRAMS"], "prometheus/usr/bin")
server = Server()
OF_THIS_MACHINE = {"SijilRegionFilling", "SijilRegionFull"}  # its disk may be nearly full


def promtool(*words, text=None):
    done = subprocess.run([os.path.join(BINARIES, "promtool"), *words], input=text, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"promtool {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def read(name):
    with open(os.path.join(MONITORING, name), encoding="utf-8") as file:
        return file.read()


class Prometheus:
    """A Prometheus that scrapes each second, with rules that do not wait: otherwise an alert would take minutes."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sijil-prometheus-")
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self):
        with open(self.path("alerts.yml"), "w", encoding="utf-8") as file:
            file.write(re.sub(r"for: \w+", "for: 0s", read("alerts.yml")))
        with open(self.path("prometheus.yml"), "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"}, "rule_files": ["alerts.yml"],
                       "scrape_configs": [{"job_name": "sijil", "scheme": "https", "scrape_interval": "3s", "scrape_timeout": "3s",
                                           "tls_config": {"ca_file": server.ca_file},
                                           "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}]}, file)
        promtool("check", "config", self.path("prometheus.yml"))
        log = open(self.path("log"), "wb")
        self.process = subprocess.Popen([os.path.join(BINARIES, "prometheus"), "--config.file", self.path("prometheus.yml"),
                                         "--storage.tsdb.path", self.path("data"), "--web.listen-address", self.url[7:]],
                                        stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(self.is_ready, 120, "Prometheus does not start")  # until then it answers 503
        wait_until(lambda: [target["health"] for target in self.get("/api/v1/targets")["activeTargets"]] == ["up"], 60, "the target is not up")

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=30) as answer:
                return answer.status == 200
        except OSError:
            return False

    def get(self, path, **query):
        try:
            with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError((path, query, error.read())) from error

    def ask(self, expression):
        return self.get("/api/v1/query", query=expression)["result"]

    def firing(self):
        return {one["metric"]["alertname"] for one in self.ask('ALERTS{alertstate="firing"}')} - OF_THIS_MACHINE

    def rules(self):
        return [rule for group in self.get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


prometheus = Prometheus()


def rules_are_sound_and_their_tests_pass():
    said = promtool("check", "rules", os.path.join(MONITORING, "alerts.yml"))
    count = len(re.findall(r"^ *- alert:", read("alerts.yml"), re.M))
    assert f"{count} rules found" in said, said
    assert "SUCCESS" in promtool("test", "rules", os.path.join(MONITORING, "alerts_test.yml"))


def a_server_is_asked():
    server.start()
    promtool("check", "metrics", text=server.client().call("GET", "/metrics").body.decode())
    prometheus.start()
    login = make_robot(server, "monitored", "publisher", "main/models")
    place = server.client(login).repository("main/models/monitored")
    until = time.monotonic() + 15  # asked several times during a change
    while time.monotonic() < until:
        data = os.urandom(100_000)
        assert place.call("GET", "blobs/" + place.push_blob(data)).body == data
    server.client().call("GET", "/v2/")


def no_rule_has_an_error_and_no_alert_fires():
    count = len(re.findall(r"^ *- alert:", read("alerts.yml"), re.M))
    wait_until(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), 30, "a rule was not evaluated")
    rules = prometheus.rules()
    assert len(rules) == count and not any(rule.get("lastError") for rule in rules), rules
    wait_until(lambda: not prometheus.firing(), 30, "an alert of a server that is well stays")  # the rules do not wait, and a quick machine makes over 1,000 events in a second


def the_dashboard_has_an_answer_for_each_panel():
    board = json.loads(read("dashboard.json"))
    empty = []
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "10s")
            assert "$" not in expression, expression
            found = prometheus.ask(expression)
            if not found and not expression.endswith("> 0"):  # which show the problem
                empty.append((panel["title"], expression))
            for one in found:
                for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                    assert label in one["metric"], (panel["title"], label, one)
    assert not empty, empty
    assert len(board["panels"]) > 25
    assert prometheus.get("/api/v1/label/instance/values") == [f"127.0.0.1:{server.port}"]


def fires(*names):
    wait_until(lambda: set(names) <= prometheus.firing(), 60, f"not all of {names} fire")


def silent():
    wait_until(lambda: prometheus.firing() == set(), 120, "an alert goes on")


def a_server_that_is_ill_raises_its_alerts():
    [keyd] = server.processes("sijil-keyd")
    os.kill(keyd, signal.SIGSTOP)
    fires("SijilKeydAway")
    os.kill(keyd, signal.SIGCONT)
    silent()
    folder = os.path.join(server.folder, "regions", "main")
    os.rename(folder, folder + ".away")
    fires("SijilRegionUnusable")
    assert "SijilRegionMissing" not in prometheus.firing()
    os.rename(folder + ".away", folder)
    silent()
    database = [*server.processes("postgres"), *children_of(min(server.processes("postgres")))]
    for process in database:
        os.kill(process, signal.SIGSTOP)  # it exists but does not answer: no connection breaks
    fires("SijilDatabaseAway")
    for process in database:
        os.kill(process, signal.SIGCONT)
    wait_until(lambda: "SijilDatabaseAway" not in prometheus.firing(), 120, "the alert goes on")


def a_server_that_is_gone_raises_one():
    server.stop()
    fires("SijilAway")


try:
    sijil_test.run(rules_are_sound_and_their_tests_pass, a_server_is_asked, no_rule_has_an_error_and_no_alert_fires,
                   the_dashboard_has_an_answer_for_each_panel, a_server_that_is_ill_raises_its_alerts, a_server_that_is_gone_raises_one,
                   server=server)
finally:
    prometheus.stop()
