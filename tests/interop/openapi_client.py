"""A client of Python that openapi-python-client has made from the description of the API administers a registry.

usage: openapi_client.py URL TOKEN CA_FILE    where the package sijil_client can be imported"""
import ssl
import sys
import uuid

from sijil_client import AuthenticatedClient
from sijil_client.api.audit import audit_event, audit_list
from sijil_client.api.bindings import binding_batch, binding_create, binding_list, binding_revoke
from sijil_client.api.organisations import organisation_create, organisation_list
from sijil_client.api.projects import project_create, project_read, project_rules, project_rules_read
from sijil_client.api.robots import robot_create, robot_list, robot_revoke
from sijil_client.models import BindingBatchWanted, BindingWanted, OrganisationWanted, Problem, ProjectWanted, RobotWanted, Rules

url, token, ca_file = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token, verify_ssl=ssl.create_default_context(cafile=ca_file))


def parsed(answer, status):
    assert answer.status_code == status, (answer.status_code, answer.content)
    return answer.parsed


made = parsed(organisation_create.sync_detailed(client=client, body=OrganisationWanted(name="made-by-client")), 201)
assert made.name == "made-by-client", made
again = parsed(organisation_create.sync_detailed(client=client, body=OrganisationWanted(name="made-by-client")), 409)
assert isinstance(again, Problem) and again.status == 409 and again.detail, again

key, wanted = str(uuid.uuid4()), ProjectWanted(organisation="made-by-client", name="one")
first = project_create.sync_detailed(client=client, body=wanted, idempotency_key=key)
repeat = project_create.sync_detailed(client=client, body=wanted, idempotency_key=key)
assert parsed(first, 201).id == parsed(repeat, 201).id and repeat.headers["Idempotent-Replayed"] == "true"
assert parsed(project_read.sync_detailed("made-by-client", "one", client=client), 200).name == "made-by-client/one"

names, after = set(), None
while True:  # page by page
    page = parsed(organisation_list.sync_detailed(client=client, limit=1, **({"after": after} if after else {})), 200)
    names |= {place.name for place in page.organisations}
    if not isinstance(page.next_, str):
        break
    after = page.next_
assert "made-by-client" in names, names

robot = parsed(robot_create.sync_detailed(client=client, body=RobotWanted.from_dict({"name": "ci", "organisation": "made-by-client"})), 201)
assert robot.secret and robot.name == "robot$made-by-client+ci", robot.name
binding = parsed(binding_create.sync_detailed(client=client, body=BindingWanted.from_dict({"robot": str(robot.id), "role": "publisher", "scope": "made-by-client/one"})), 201)
assert str(binding.id) in {str(row.id) for row in parsed(binding_list.sync_detailed(client=client, scope="made-by-client/one"), 200).bindings}
batch = BindingBatchWanted.from_dict({"bindings": [{"robot": str(robot.id), "role": role, "scope": "made-by-client/one"} for role in ("consumer", "consumer", "no-such-role")]})
answers = parsed(binding_batch.sync_detailed(client=client, scope="made-by-client", body=batch), 200)
assert answers.given == 1 and [one.status for one in answers.bindings] == [201, 409, 400] and answers.bindings[1].is_there
assert binding_revoke.sync_detailed(binding.id, client=client).status_code == 204
assert [row.name for row in parsed(robot_list.sync_detailed(client=client, organisation="made-by-client"), 200).robots] == [robot.name]
assert robot_revoke.sync_detailed(robot.id, client=client).status_code == 204

rules = project_rules_read.sync_detailed("made-by-client", "one", client=client)
change = Rules.from_dict({"immutable": [{"repositories": "*", "tags": "v*"}]})
assert project_rules.sync_detailed("made-by-client", "one", client=client, body=change, if_match=rules.headers["ETag"]).status_code == 200
assert project_rules.sync_detailed("made-by-client", "one", client=client, body=change, if_match=rules.headers["ETag"]).status_code == 412

events = parsed(audit_list.sync_detailed(client=client, limit=5), 200).events
assert len(events) == 5 and parsed(audit_event.sync_detailed(str(events[0].seq), client=client), 200).seq == events[0].seq
print("the client made an organisation, a project, a robot and a role, set rules, and read the log")
