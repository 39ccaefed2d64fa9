"""Persons with keys that approve, and policy sets with their signatures."""
import base64
import hashlib
import json

import signing_keys
from signing_keys import Key
from sijil_test import make_person

SET = "application/vnd.sijil.policy-set.v1+json"


def principal_of(server, name):
    return "ext:" + hashlib.sha256(f"{server.people.url}\n{name}".encode()).hexdigest()


def person(server, name):
    """As documents name a subject of the issuer."""
    return {"iss": server.people.url, "sub": name}


def make(server, names, root_key):
    """Makes these persons approvers, each with a key that the root has signed. Returns their keys."""
    keys = {}
    registrar = server.client(make_person(server, "registrar", "registry-admin", ""))  # another person than any of them
    for name in names:
        login = make_person(server, name, "registry-admin", "")
        keys[name] = Key(principal_of(server, name), "approve")
        drafted = signing_keys.sign(keys[name].document(), keys[name].path)
        made = server.client(login).call("POST", "/api/v1/keys/signing", json.dumps(drafted), {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert made.status == 201, made.body
        document = base64.b64decode(drafted["payload"])
        registrar.api("POST", f"/keys/signing/{keys[name].name}/approval", {"envelopes": [drafted, signing_keys.sign(document, root_key)]})
    return keys


def add_signatures(envelope, keys):
    """The envelope of a set with the signatures of these keys, too."""
    document = base64.b64decode(envelope["payload"])
    more = [signing_keys.sign(document, key.path, SET)["signatures"][0] for key in keys]
    return {**envelope, "signatures": envelope["signatures"] + more}
