"""Gateways with policies that allow training; sijil-keyd can be killed, and started again."""
import json
import os
import subprocess
import time

from fleet import Fleet, Judge
from sijil_test import program

TRAINING = ("ingest", "mount", "read", "metadata", "log", "train")


class RunFleet(Fleet):
    """With policies that allow training."""
    REGIONS = {"local/main": {"geo": "AE"}, "local/elsewhere": {"geo": "SA"}}

    def policy_set(self, epoch, operations=TRAINING, approvals=0, at_most="confidential", rules=(), policies=(), **members):
        """`rules` and `policies`: more of them; `members`: of the set."""
        rules = [{"id": "PERMIT", "effect": "permit", "ops": list(operations), "when": {"class_at_most": at_most}}, *rules]
        if approvals:
            rules.append({"id": "PERSONS", "effect": "oblige", "ops": ["train"], "oblige": {"approvals": approvals}})
        policy = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "labels": {"class": "confidential"}, "rules": rules,
                  "metadata": {"id": "all", "version": epoch, "scope": ["**"], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"}}
        with open(self.path("set.json"), "w", encoding="utf-8") as file:
            json.dump({"policies": [policy, *policies], "regions": self.REGIONS, **members}, file)
        self.run(program("sijil"), "policy", "sign", "--key", self.path("approver.pem"), "--epoch", str(epoch),
                 "--output", self.path("set.dsse"), self.path("set.json"))
        with open(self.path("set.dsse"), "rb") as file:
            return file.read()

    def kill_keyd(self):
        """While it is stopped, a message of a gateway may lie in its socket."""
        self.keyd.kill()
        self.keyd.wait()

    def start_keyd(self):
        if os.path.exists(self.path("socket")):
            os.unlink(self.path("socket"))
        self.keyd = subprocess.Popen([program("sijil-keyd"), *self.keyd_words(), "--socket", self.path("socket")],
                                     stdout=self.log, stderr=self.log, env=self.manager.environment())
        while not self.manager.was_told(self.keyd.pid, "READY=1"):
            assert self.keyd.poll() is None, "sijil-keyd has ended"
            time.sleep(0.05)

    def load(self, operations=TRAINING, approvals=0, **more):
        """The next set of policies."""
        self.epoch = getattr(self, "epoch", 1) + 1
        answer = self.client(self.admin).call("POST", "/api/v1/policies", self.policy_set(self.epoch, operations, approvals, **more),
                                              {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status in (201, 202), answer.body

    def sql(self, text):
        return Judge.sql_at(self, text)


def load_policies(server, epoch, **more):
    answer = server.client(server.admin).call("POST", "/api/v1/policies", server.policy_set(epoch, **more),
                                              {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert answer.status in (201, 202), answer.body
