"""Cases: keys of people. A holder enrols and withdraws keys, and the administrator approves them with the root's key."""
import json
import os

from attempt import Patient, Try, reading
from signing_keys import Key, sign

ROUTE = "/api/v1/keys/signing"
HOLDER = "ext:" + "1" * 64


class People:
    """Two robots with a person behind each. No issuer runs here, so the database's owner sets these persons."""

    def __init__(self, world):
        self.world = world
        robot = world.admin.api("POST", "/robots", {"organisation": "main", "name": "holder"})
        world.admin.api("POST", "/bindings", {"robot": robot["id"], "role": "publisher", "scope": "main"})
        world.machine.sql(f"UPDATE robot SET person = CASE WHEN robot_id = '{robot['id']}' THEN '{HOLDER}' ELSE 'administrator' END,"
                          f" behind = CASE WHEN robot_id = '{robot['id']}' THEN '{{{HOLDER}}}' ELSE '{{administrator}}' END::text[]"
                          f" WHERE robot_id = '{robot['id']}' OR created_by = 'system'")
        world.machine.sql("SELECT raise_authorization_epoch()")
        self.holder = Patient(world.machine, (robot["name"], robot["secret"]))
        self.principal = "robot:" + robot["id"]

    def post(self, client, path, body):
        return client.call("POST", ROUTE + path, json.dumps(body), {"Content-Type": "application/json"}, scope="registry:admin:*")

    def key(self):
        """A new key, with its document and its holder's signature."""
        key = Key(self.principal, scope="main")
        document = key.document()
        return key, document, sign(document, key.path)

    def state_of(self, key):
        listed = self.world.admin.api("GET", "/keys/signing?limit=1000&scope=main")
        return next((one["state"] for one in listed["keys"] + listed["drafts"] if one["name"] == key.name), None)

    def drafted(self):
        key, document, envelope = self.key()
        answer = self.post(self.holder, "", envelope)
        assert answer.status == 201, answer.body
        return key, [envelope, sign(document, self.world.machine.path("approver.pem"))]


def people_of(world):
    if getattr(world, "people", None) is None:
        world.people = People(world)
    world.machine.sql("DELETE FROM document_draft")  # of earlier tries: eight of a principal may wait
    world.people.holder.token("registry:admin:*")
    return world.people


def state_after(people, key, before, done):
    """The key is in force, a draft, or unchanged; no other state is possible."""
    def after(good):
        state = people.state_of(key)
        assert state == done if good else state in (before, done), state
    return after


def enroll(world):
    people = people_of(world)
    key, _, envelope = people.key()
    return Try(lambda: people.post(people.holder, "", envelope), 201, lambda answer: answer.json["state"] == "draft",
               after=state_after(people, key, None, "draft"), repeated=(409,))


def approve(world):
    people = people_of(world)
    key, envelopes = people.drafted()
    return Try(lambda: people.post(world.admin, f"/{key.name}/approval", {"envelopes": envelopes}), (201, 202),
               after=state_after(people, key, "draft", "in force"), repeated=(409,))


def revoke(world):
    people = people_of(world)
    key, envelopes = people.drafted()
    answer = people.post(world.admin, f"/{key.name}/approval", {"envelopes": envelopes})
    assert answer.status in (201, 202) and people.state_of(key) == "in force", answer.body
    withdrawal = sign(key.document(version=2, withdrawn="lost"), key.path)
    os.unlink(key.path)
    return Try(lambda: people.post(people.holder, f"/{key.name}/withdrawal", withdrawal), (201, 202),
               after=state_after(people, key, "in force", "withdrawn"), repeated=(409,))


def read(world):
    """One key and one draft."""
    people = people_of(world)
    people.drafted()
    return reading(lambda _: "/keys/signing?scope=main", lambda _, answer: len(answer.json["drafts"]) == 1, who="api")(world)


CASES = {"signing-key-enroll": enroll, "signing-key-approve": approve, "signing-key-revoke": revoke, "signing-key-list": read}
