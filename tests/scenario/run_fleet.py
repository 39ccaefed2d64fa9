"""Gateways with policies that allow training."""
import json

from fleet import Fleet, Judge
from sijil_test import program

TRAINING = ("ingest", "mount", "read", "metadata", "log", "train")


class RunFleet(Fleet):
    """With policies that allow training."""

    def policy_set(self, epoch, operations=TRAINING, approvals=0):
        rules = [{"id": "PERMIT", "effect": "permit", "ops": list(operations), "when": {"class_at_most": "confidential"}}]
        if approvals:
            rules.append({"id": "PERSONS", "effect": "oblige", "ops": ["train"], "oblige": {"approvals": approvals}})
        policy = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "labels": {"class": "confidential"}, "rules": rules,
                  "metadata": {"id": "all", "version": epoch, "scope": ["**"], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"}}
        with open(self.path("set.json"), "w", encoding="utf-8") as file:
            json.dump({"policies": [policy], "regions": {"local/main": {"geo": "AE"}, "local/elsewhere": {"geo": "SA"}}}, file)
        self.run(program("sijil"), "policy", "sign", "--key", self.path("approver.pem"), "--epoch", str(epoch),
                 "--output", self.path("set.dsse"), self.path("set.json"))
        with open(self.path("set.dsse"), "rb") as file:
            return file.read()

    def load(self, operations=TRAINING, approvals=0):
        """The next set of policies."""
        self.epoch = getattr(self, "epoch", 1) + 1
        answer = self.client(self.admin).call("POST", "/api/v1/policies", self.policy_set(self.epoch, operations, approvals),
                                              {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status in (201, 202), answer.body

    def sql(self, text):
        return Judge.sql_at(self, text)
