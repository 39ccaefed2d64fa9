#!/usr/bin/env python3
"""From a signed request to a lease and a running program, on two gateways: runners that wait, lost answers, refusals, runs that must stop,
copies of a runner, withdrawn runners, and gateways that are killed while an order is made."""
import concurrent.futures
import copy
import json
import os
import secrets
import signal
import subprocess
import time

import sijil_test
from fleet import Judge
from run_fleet import TRAINING, RunFleet, load_policies
from run_world import FOLDER, PROJECT, REGION, Person, Robot, Runner, World, artifact, opened, spec
from sijil_test import Client, make_person, make_robot, program, run
from slurm_liar import Liar

server = RunFleet(2).start()
state = {"epoch": 1}


def sql(text):
    return Judge.sql_at(server, text)


def prepare():
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    state["alice"], state["bob"] = Person(world, "alice"), Person(world, "bob")
    state["runner"], state["other"], state["leaving"] = Runner(world), Runner(world), Runner(world, pool="leaving")


def load(operations=TRAINING, approvals=0):
    """The next set of policies."""
    state["epoch"] += 1
    load_policies(server, state["epoch"], operations=operations, approvals=approvals)


def ordered(**more):
    asked = state["alice"].request(**more)
    state["alice"].wait(asked, "ordered")
    return asked


def leased(runner=None):
    """A run that this runner has: the bundle and the run's id."""
    asked = ordered()
    bundle = (runner or state["runner"]).lease()
    assert opened(bundle["lease"])[0]["run"] == asked["run"]
    return asked, bundle


def done(asked):
    """The end of a case: the run is out of the way of the others."""
    answer = state["alice"].call("DELETE", "/" + asked["run"])
    assert answer.status in (204, 409), answer.body


# ---- from the request to the program ----

def a_waiting_runner_gets_the_run_as_soon_as_it_is_ordered():
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asking = pool.submit(state["runner"].lease, 25, port=server.ports[1])  # at the other gateway
        time.sleep(1)
        assert not asking.done()
        began = time.monotonic()
        asked = state["alice"].request()
        bundle = asking.result()
    took = time.monotonic() - began
    assert took < 5, f"from the request to the lease: {took:.2f} s"
    lease, digest = opened(bundle["lease"])
    order = opened(bundle["order"])[0]
    assert lease["run"] == asked["run"] and lease["attempt"] == 1 and lease["runner"] == {"id": state["runner"].id, "key": state["runner"].key.name}
    assert order["spec"] == asked["spec"] and order["jurisdictions"] == ["AE"], order
    assert state["alice"].run(asked)["state"] == "leased"
    assert len(bundle["policy_sets"]) == 1 and len(bundle["decisions"]) == 1
    state["first"] = (asked, bundle, digest)


def an_outsider_verifies_the_bundle():
    asked, _, digest = state["first"]
    answer = state["bob"].call("GET", f"/{asked['run']}/bundle")
    assert answer.status == 200 and opened(answer.json["lease"])[1] == digest, answer.body[:300]
    keys = server.client(server.admin).api("GET", "/audit/key")
    path, signer = os.path.join(FOLDER.name, "bundle"), os.path.join(FOLDER.name, "signer.pem")
    with open(path, "wb") as file:
        file.write(answer.body)
    with open(signer, "w", encoding="ascii") as file:
        file.write(keys["documents"])

    def verify():
        return subprocess.run([program("sijil-verify"), "run", "--key", keys["vkey"], "--signer", signer, "--root",
                               server.path("approver.pub.pem"), path], capture_output=True, text=True, timeout=60)
    verified = verify()
    assert verified.returncode == 0 and "the order's recorded decision follows" in verified.stdout, (verified.stdout, verified.stderr)
    assert "decisions of the bundle" not in verified.stdout, verified.stdout
    only = answer.json["decisions"][0]
    invented = json.loads(only)
    invented["entry"]["seq"] = 999999
    for others in ([only] * 63, [json.dumps(invented, separators=(",", ":"))]):  # they follow from the set, and are not proven to be in the log
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**answer.json, "decisions": [only, *others]}, file)
        verified = verify()
        proven, unproven = verified.stdout.split("Not proven:")
        assert verified.returncode == 0 and f"the other {len(others)} decisions of the bundle" in unproven, (verified.stdout, verified.stderr)
        assert proven.count("decision") == 1, proven


def the_same_session_gets_a_lost_answer_again():
    _, _, digest = state["first"]
    runner = state["runner"]
    again = runner.lease(0, port=server.ports[0])
    assert opened(again["lease"])[1] == digest
    sql("UPDATE run_attempt SET lease = NULL WHERE ended_at IS NULL")  # as if the gateway had died before it kept the envelope
    assert opened(runner.lease(0)["lease"])[1] == digest


def the_holder_reports_and_nobody_else():
    asked, _, _ = state["first"]
    runner, other = state["runner"], state["other"]
    assert other.start(asked["run"]).status == 404 and other.beat(asked["run"]).status == 404
    heard = runner.beat(asked["run"], phase="fetching")
    assert heard.status == 200 and heard.json == {"state": "leased", "stop": False, "every_ms": 10000}, heard.body
    assert runner.ask().status == 204  # it has begun with its lease
    assert runner.start(asked["run"], port=server.ports[1]).status == 204
    assert runner.start(asked["run"]).status == 204  # the answer was lost
    assert runner.beat(asked["run"], progress=40).json["state"] == "running"
    shown = state["alice"].run(asked)
    assert (shown["state"], shown["phase"], shown["progress"]) == ("running", "running", 40), shown
    assert runner.beat(asked["run"], attempt=2).status == 404
    assert sql(f"SELECT progress FROM run_attempt WHERE run_id = '{asked['run']}'") == "40"
    done(asked)
    heard = runner.beat(asked["run"]).json
    assert heard["stop"] and heard["state"] == "cancelled" and heard["reason"], heard
    assert runner.start(asked["run"]).status == 409


def approvals_travel_with_the_order():
    load(approvals=1)
    asked = state["alice"].request()
    assert state["alice"].run(asked)["state"] == "awaiting approval"
    assert state["bob"].call("GET", f"/{asked['run']}/bundle").status == 409  # there is nothing to verify yet
    state["bob"].approve(asked)
    bundle = state["runner"].lease()
    order = opened(bundle["order"])[0]
    assert order["approvals"] == [opened(one)[1] for one in bundle["approvals"]] and len(order["approvals"]) == 1
    assert order["obligations"] == {"approvals": 1, "signed_request": False}, order["obligations"]
    done(asked)
    load()


# ---- refusals ----

def a_refusal_is_signed_by_the_holder():
    asked, bundle = leased()
    runner, stranger = state["runner"], state["other"]
    assert runner.refuse(bundle, runner.refusal(bundle, key=stranger.key)).status == 403
    assert runner.refuse(bundle, runner.refusal(bundle, lease="sha256:" + "0" * 64)).status == 403
    assert runner.refuse(bundle, "{}").status == 400
    assert stranger.refuse(bundle, stranger.refusal(bundle)).status == 404
    text = runner.refusal(bundle)
    assert runner.refuse(bundle, text).status == 204
    assert runner.refuse(bundle, text).status == 204  # the answer was lost
    shown = state["alice"].run(asked)
    assert shown["state"] == "refused" and shown["reason"] == "devices: no such device", shown
    assert runner.refuse(bundle, runner.refusal(bundle, reason="another")).status == 409


def a_returned_lease_goes_to_another_runner_at_once():
    """A machine that can't run it now burnt 40 s before another one got the run."""
    asked, bundle = leased()
    runners = [state["runner"], state["other"], Runner(state["world"])]
    for attempt, runner in enumerate(runners, 1):
        assert opened(bundle["lease"])[0]["attempt"] == attempt
        text = runner.refusal(bundle, check="machine", reason="the disk is full")
        assert runner.refuse(bundle, text).status == 204
        assert runner.refuse(bundle, text).status == 204  # the answer was lost
        assert runner.ask().status == 204, "it gets the run again at once"
        assert runner.beat(asked["run"], attempt).json["stop"]
        if attempt < len(runners):
            assert state["alice"].run(asked)["state"] == "ordered" and state["alice"].run(asked).get("reason") is None
            bundle = runners[attempt].lease(0)  # at once
    shown = state["alice"].run(asked)
    assert shown["state"] == "failed" and shown["reason"] == "machine: the disk is full", shown
    assert [one["kind"] for one in shown["envelopes"]] == ["request", "order", "return", "return", "return"], shown["envelopes"]
    assert sql(f"SELECT string_agg(outcome, ' ') FROM run_attempt WHERE run_id = '{asked['run']}'") == "returned returned returned"
    answer = state["alice"].call("GET", f"/{asked['run']}/bundle")
    assert answer.status == 200 and "refusal" not in answer.json, answer.body[:300]


def a_lease_that_keyd_refuses_keeps_nobody_waiting():
    asked, _ = leased()
    sql(f"DELETE FROM run_attempt WHERE run_id = '{asked['run']}'; UPDATE run SET state = 'ordered', attempt = 0 WHERE run_id = '{asked['run']}'")
    assert state["other"].ask().status == 204  # sijil-keyd has promised the attempt to the first runner
    assert sql(f"SELECT outcome FROM run_attempt WHERE run_id = '{asked['run']}'") == "returned"
    assert [one for one in state["world"].events("run.lose") if asked["run"] in str(one)], "no event says why"
    lease, _ = opened(state["runner"].lease(0)["lease"])
    assert lease["run"] == asked["run"] and lease["attempt"] == 2, lease
    done(asked)


def a_refused_lease_ends_the_search():
    """The permit of the request is that of the lease, and would end no other run: the gateway would stop."""
    data = f"{PROJECT}/searched"
    server.client(make_robot(server, "searched", "publisher", PROJECT)).repository(data).push_blob(b"a person")
    asked, _ = leased()
    other = ordered(spec=spec(inputs=[{"name": "digits", **artifact(data)}]))
    server.client(server.admin).api("PUT", f"/repositories/{data}/label", {"attached": ["AE-FED"]})
    time.sleep(3)  # both gateways have the new label
    sql(f"DELETE FROM run_attempt WHERE run_id = '{asked['run']}'; UPDATE run SET state = 'ordered', attempt = 0 WHERE run_id = '{asked['run']}'")
    assert state["other"].ask().status == 204
    assert state["alice"].run(other)["state"] == "ordered", "the search went on"
    assert state["other"].ask().status == 204 and state["alice"].run(other)["state"] == "failed", "the next question ends it"
    done(asked)


def a_kept_certificate_that_is_none_keeps_no_refusal_away():
    """As if somebody had written into the database before the start: nobody takes the row for the runner's mistake, and the run ends with a reason."""
    asked, bundle = leased()
    runner = state["runner"]
    sql(f"UPDATE run_attempt SET certificate = 'none' WHERE run_id = '{asked['run']}'")
    assert runner.start(asked["run"]).status == 409
    log = "sha256:" + "c" * 64
    answer = runner.finish(bundle, runner.result(bundle, {"log": log}, status="failed", exit_status=1, reason="x"), {"log": "{}"})
    assert answer.status == 500, (answer.status, answer.body)
    assert runner.refuse(bundle, runner.refusal(bundle)).status == 204
    assert state["alice"].run(asked)["state"] == "refused"


# ---- what must stop ----

def a_run_that_the_policies_of_today_forbid_stops():
    asked, _ = leased()
    runner = state["runner"]
    assert runner.start(asked["run"]).status == 204
    load(tuple(one for one in TRAINING if one != "train"))
    sijil_test.wait_until(lambda: runner.beat(asked["run"]).json["stop"], 30, "the run does not stop")
    heard = runner.beat(asked["run"], port=server.ports[1]).json
    assert heard["state"] == "failed" and "the policies of today" in heard["reason"], heard
    assert [one for one in state["world"].events("run.lease") if one["out"] == "denied"], "no event has the rule"
    load()


def a_run_that_the_policies_forbid_since_its_order_is_not_leased():
    asked = ordered()
    load(tuple(one for one in TRAINING if one != "train"))
    sijil_test.wait_until(lambda: state["runner"].ask().status == 204 and state["alice"].run(asked)["state"] == "failed", 30, "it is still offered")
    assert "do not allow" in state["alice"].run(asked)["reason"]
    load()


def a_requester_that_loses_its_rights_trains_no_more():
    """What somebody ordered before: a run that goes on, and one that waits."""
    for number, (loses, says) in enumerate(((Person.lose_role, "the requester has lost all roles"), (Person.withdraw_key, "was withdrawn"))):
        thief = Person(state["world"], f"thief{number}")
        running = thief.request()
        thief.wait(running, "ordered")
        bundle = state["runner"].lease()
        assert opened(bundle["lease"])[0]["run"] == running["run"] and state["runner"].start(running["run"]).status == 204
        waiting = thief.request()
        thief.wait(waiting, "ordered")
        assert not state["runner"].beat(running["run"]).json["stop"] and state["runner"].token(bundle).status == 200
        loses(thief)
        sijil_test.wait_until(lambda got=bundle: state["runner"].token(got).status == 403, 30, "the run still gets tokens")
        sijil_test.wait_until(lambda run=running: state["runner"].beat(run["run"]).json["stop"], 30, "the run does not stop")
        sijil_test.wait_until(lambda run=waiting: state["other"].ask().status == 204 and state["alice"].run(run)["state"] == "failed", 30, "it is still offered")
        for asked in (running, waiting):
            shown = state["alice"].run(asked)
            assert shown["state"] == "failed" and says in shown["reason"], shown
            assert [one for one in state["world"].events("run.end") if asked["run"] in json.dumps(one)], "no event says that it ended"


def a_lost_answer_is_decided_again():
    """The session would get the same lease again; meanwhile its requester has lost its role."""
    thief = Person(state["world"], "thief-of-answers")
    asked = thief.request()
    thief.wait(asked, "ordered")
    bundle = state["runner"].lease()
    assert opened(bundle["lease"])[0]["run"] == asked["run"] and state["runner"].lease(0) == bundle
    thief.lose_role()
    sijil_test.wait_until(lambda: state["runner"].ask().status == 204, 30, "the lease is still handed out")
    shown = state["alice"].run(asked)
    assert shown["state"] == "failed" and "the requester has lost all roles" in shown["reason"], shown


def a_lost_answer_is_decided_again():
    """The session would get the same lease again; meanwhile its requester has lost its role."""
    thief = Person(state["world"], "thief-of-answers")
    asked = thief.request()
    thief.wait(asked, "ordered")
    bundle = state["runner"].lease()
    assert opened(bundle["lease"])[0]["run"] == asked["run"] and state["runner"].lease(0)["lease"] == bundle["lease"]
    thief.lose_role()
    sijil_test.wait_until(lambda: state["runner"].ask().status == 204, 30, "the lease is still handed out")
    shown = state["alice"].run(asked)
    assert shown["state"] == "failed" and "the requester has lost all roles" in shown["reason"], shown


def duties_that_came_after_the_order_count():
    running, waiting = leased()[0], ordered()
    assert state["runner"].start(running["run"]).status == 204
    load(approvals=1)
    sijil_test.wait_until(lambda: state["runner"].beat(running["run"]).json["stop"], 30, "the run does not stop")
    sijil_test.wait_until(lambda: state["other"].ask().status == 204 and state["alice"].run(waiting)["state"] == "failed", 30, "it is still offered")
    for asked in (running, waiting):
        assert "the policies of today ask for 1 approvals, and the run has 0" in state["alice"].run(asked)["reason"], state["alice"].run(asked)
    load()


def a_dataset_that_is_labelled_anew_after_the_order_stops_the_run():
    """Before the lease nobody gets the run; after it, the next heartbeat ends the run."""
    data, pusher = [f"{PROJECT}/relabelled{number}" for number in range(2)], server.client(make_robot(server, "labelled", "publisher", PROJECT))
    for name in data:
        pusher.repository(name).push_blob(b"a person")
    first, second = [{"spec": spec(inputs=[{"name": "digits", **artifact(name)}])} for name in data]
    asked = ordered(**first)
    server.client(server.admin).api("PUT", f"/repositories/{data[0]}/label", {"attached": ["AE-FED"]})
    sijil_test.wait_until(lambda: state["runner"].ask().status == 204 and state["alice"].run(asked)["state"] == "failed", 30, "it is still offered")
    assert "stricter label" in state["alice"].run(asked)["reason"], state["alice"].run(asked)
    asked = ordered(**second)
    assert opened(state["runner"].lease()["lease"])[0]["run"] == asked["run"] and state["runner"].start(asked["run"]).status == 204
    assert not state["runner"].beat(asked["run"]).json["stop"]
    server.client(server.admin).api("PUT", f"/repositories/{data[1]}/label", {"attached": ["AE-FED"]})
    sijil_test.wait_until(lambda: state["runner"].beat(asked["run"]).json["stop"], 30, "the run does not stop")
    assert "stricter label" in state["alice"].run(asked)["reason"], state["alice"].run(asked)


def a_heartbeat_believes_no_order_of_a_row():
    """As if somebody had written into the database: the order of another run, without the input that has a stricter label by now."""
    data = f"{PROJECT}/believed"
    server.client(make_robot(server, "believed", "publisher", PROJECT)).repository(data).push_blob(b"a person")
    other = ordered()
    done(other)
    asked = ordered(spec=spec(inputs=[{"name": "digits", **artifact(data)}]))
    assert opened(state["runner"].lease()["lease"])[0]["run"] == asked["run"] and state["runner"].start(asked["run"]).status == 204
    assert not state["runner"].beat(asked["run"]).json["stop"]
    row = f"kind = 'order' AND run_id = '{asked['run']}'"
    own = sql(f"SELECT envelope FROM run_envelope WHERE {row}")
    sql(f"UPDATE run_envelope SET envelope = (SELECT envelope FROM run_envelope WHERE run_id = '{other['run']}' AND kind = 'order') WHERE {row}")
    server.client(server.admin).api("PUT", f"/repositories/{data}/label", {"attached": ["AE-FED"]})
    answer = state["runner"].beat(asked["run"])
    assert answer.status == 500, (answer.status, answer.body)
    sql(f"UPDATE run_envelope SET envelope = $row${own}$row$ WHERE {row}")
    sijil_test.wait_until(lambda: state["runner"].beat(asked["run"]).json["stop"], 30, "the run does not stop")
    assert "stricter label" in state["alice"].run(asked)["reason"], state["alice"].run(asked)


def a_run_that_can_not_be_decided_does_not_go_on():
    """As if somebody had written into the database, as its owner: another request beside the run's own, and then another one in its place. The first one is
    nobody's request; with the second one no heartbeat moves the deadline."""
    leaver, runner = Person(state["world"], "leaver"), state["runner"]
    asked, other = leaver.request(), state["bob"].request(spec=spec(pool="nobody"))
    leaver.wait(asked, "ordered")
    assert opened(runner.lease()["lease"])[0]["run"] == asked["run"] and runner.start(asked["run"]).status == 204
    row = f"kind = 'request' AND run_id = '{asked['run']}'"
    second = ("INSERT INTO run_envelope (run_id, kind, principal, digest, envelope) SELECT '%s', kind, 'nobody', decode(repeat('00', 32), 'hex'), envelope"
              f" FROM run_envelope WHERE kind = 'request' AND run_id = '{other['run']}'")
    sql(f"ALTER TABLE run_envelope DISABLE TRIGGER run_has_one_request; {second % asked['run']}; ALTER TABLE run_envelope ENABLE TRIGGER run_has_one_request")
    assert runner.beat(asked["run"]).json["stop"] is False
    own = sql(f"SELECT envelope FROM run_envelope WHERE {row} AND principal <> 'nobody'")
    sql(f"UPDATE run_envelope SET envelope = (SELECT envelope FROM run_envelope WHERE kind = 'request' AND run_id = '{other['run']}')"
        f" WHERE {row} AND principal <> 'nobody'")
    deadline = f"SELECT deadline FROM run_attempt WHERE run_id = '{asked['run']}'"
    before = sql(deadline)
    answer = runner.beat(asked["run"])
    assert answer.status == 500 and sql(deadline) == before, (answer.status, answer.body, before, sql(deadline))
    sql(f"UPDATE run_envelope SET envelope = $row${own}$row$ WHERE {row} AND principal <> 'nobody'")
    leaver.lose_role()
    sijil_test.wait_until(lambda: runner.beat(asked["run"]).json["stop"], 30, "the run does not stop")
    assert "lost all roles" in state["alice"].run(asked)["reason"], state["alice"].run(asked)
    state["bob"].call("DELETE", "/" + other["run"])


def a_run_that_rows_keep_from_ending_does_not_go_on():
    """As if somebody had the role of the gateways: a running run whose row says that it is finishing can't be ended. Its requester has lost its role."""
    leaver, runner = Person(state["world"], "goer"), state["runner"]
    asked = leaver.request()
    leaver.wait(asked, "ordered")
    assert opened(runner.lease()["lease"])[0]["run"] == asked["run"] and runner.start(asked["run"]).status == 204
    assert runner.beat(asked["run"]).json["stop"] is False
    sql(f"SET ROLE sijil_app; UPDATE run SET state = 'finishing' WHERE run_id = '{asked['run']}'; RESET ROLE")
    assert runner.beat(asked["run"]).json["stop"] is False
    leaver.lose_role()
    sijil_test.wait_until(lambda: runner.beat(asked["run"]).json["stop"], 30, "the runner is not told to stop")
    deadline = f"SELECT deadline FROM run_attempt WHERE run_id = '{asked['run']}'"
    before, answer = sql(deadline), runner.beat(asked["run"]).json
    assert answer["stop"] is True and "lost all roles" in answer["reason"] and sql(deadline) == before, (answer, before, sql(deadline))
    sql(f"UPDATE run SET state = 'running' WHERE run_id = '{asked['run']}'")
    assert runner.beat(asked["run"]).json["stop"] is True
    assert "lost all roles" in state["alice"].run(asked)["reason"], state["alice"].run(asked)


# ---- who gets what ----

def an_attempt_has_one_lease_whatever_the_database_says():
    """As if somebody had written into the database, or the gateway was another program: the same attempt for a second runner."""
    asked, bundle = leased()
    for change in ("DELETE FROM run_attempt", "UPDATE run SET attempt = 0, state = 'ordered'"):
        sql(f"{change} WHERE run_id = '{asked['run']}'")
    answer = state["other"].ask(3)
    assert answer.status != 200, answer.body
    assert sql(f"SELECT count(*) FROM run_attempt WHERE run_id = '{asked['run']}' AND lease IS NOT NULL") == "0", "a second runner has a lease"
    sql(f"DELETE FROM run_attempt WHERE run_id = '{asked['run']}'; UPDATE run SET attempt = 0, state = 'ordered' WHERE run_id = '{asked['run']}'")
    again = state["runner"].lease()
    assert opened(again["lease"])[1] == opened(bundle["lease"])[1], "the runner of the first lease does not get it again"
    done(asked)


def an_ended_run_frees_its_places():
    """sijil-keyd keeps places for three leases and an admission until it is told; unit/test_keyd_runs.c shows that they become free."""
    asked = ordered()
    done(asked)
    sijil_test.wait_until(lambda: sql(f"SELECT is_freed FROM run_draft WHERE run_id = '{asked['run']}'") == "t", 60, "sijil-keyd is not told")


def a_runner_gets_only_what_its_document_allows():
    asked = ordered()
    for other in (state["leaving"], *(Runner(state["world"], **place) for place in ({"jurisdictions": ["AE", "SA"]}, {"region": "local/elsewhere"}))):
        assert other.ask().status == 204, other.place
    assert state["runner"].ask(cpus=0).status == 204
    assert state["runner"].ask().status == 200
    done(asked)


def a_scheduler_sees_sizes_and_no_order():
    """It leases nothing, and a node gets only the run that its job names."""
    head, node = Runner(state["world"]), state["runner"]
    asked, later = ordered(), ordered()
    before = len(state["world"].events("runner.ask"))
    answer = head.queue(port=server.ports[1])
    assert answer.status == 200 and answer.json["more"] is False, answer.body
    listed = {one["run"]: one for one in answer.json["runs"]}
    assert listed[asked["run"]] == {"run": asked["run"], "attempt": 1, "held": False, "nodes": 1, "cpus": 1, "memory_bytes": 1 << 28, "time_s": 605,
                                    "devices": 0, "regions": [REGION]}, listed
    assert later["run"] in listed and PROJECT not in answer.body.decode()
    assert head.queue().status == 200 and len(state["world"].events("runner.ask")) == before + 1, "each look has an event"
    assert not head.queue("local/elsewhere").json["runs"] and head.queue(*["a"] * 17).status == 400
    assert Runner(state["world"], pool="leaving").queue().json["runs"] == []
    assert node.ask(run=later["run"], attempt=2).status == 204 and node.ask(run=later["run"]).status == 400
    bundle = node.ask(run=later["run"], attempt=1)
    assert bundle.status == 200 and opened(bundle.json["lease"])[0]["run"] == later["run"], "it gets the older one"
    assert node.ask(run=asked["run"], attempt=1).status == 200, "a lease that another job lost is given in its place"
    assert {one["run"]: one["held"] for one in head.queue().json["runs"]} == {asked["run"]: True, later["run"]: True}
    done(asked)
    assert [one["run"] for one in head.queue().json["runs"]] == [later["run"]]
    load(tuple(one for one in TRAINING if one != "metadata"))  # of the region of the scheduler, too
    sijil_test.wait_until(lambda: head.queue().json["runs"] == [], 30, "a place that may know nothing is told of runs")
    load()
    done(later)


def people_learn_why_a_run_waits():
    """Runners ask at one gateway, and the run is shown by the other; each question after the first has no event."""
    sql("DELETE FROM run_offer")  # of the cases before
    asked = state["alice"].request(spec=spec(pool="scarce"))
    state["alice"].wait(asked, "ordered")
    runners = [Runner(state["world"], pool="scarce", jurisdictions=["DE"]), Runner(state["world"], pool="scarce"), Runner(state["world"], pool="scarce")]
    assert state["bob"].run(asked)["runners"] == {"asked": 0, "fit": 0, "lack": []}
    for runner in runners:
        assert runner.ask(memory_bytes=1 << 20, port=server.ports[1]).status == 204
    events = len(state["world"].events("runner.ask"))
    assert runners[2].ask(memory_bytes=1 << 20, cpus=0, port=server.ports[0]).status == 204
    expected = {"asked": 3, "fit": 0, "lack": [{"what": "memory", "runners": 3}, {"what": "cpus", "runners": 1}, {"what": "jurisdiction", "runners": 1}]}
    for port in server.ports:
        shown = state["bob"].call("GET", "/" + asked["run"], port=port).json
        assert shown["runners"] == expected, shown["runners"]
    assert len(state["world"].events("runner.ask")) == events and "runners" not in state["bob"].call("GET", "").json["runs"][0]
    assert opened(runners[1].lease(0)["lease"])[0]["run"] == asked["run"]
    assert "runners" not in state["bob"].run(asked)
    done(asked)


def a_machine_that_schedules_has_one_job_for_each_run():
    """The real program between this registry and a slurmrestd of the test."""
    head = Runner(state["world"])
    with Liar(os.path.join(FOLDER.name, "liar")) as liar, open(os.path.join(FOLDER.name, "head.log"), "wb") as log:
        liar.state = "PENDING"
        process = subprocess.Popen([program("sijil-runner"), "serve", "--state=" + head.folder(), "--slurm=" + liar.url, f"--slurm-region={REGION}"], stderr=log)
        try:
            asked = ordered()
            sijil_test.wait_until(lambda: len(liar.submitted) == 1, 30, "no job is started")
            job = liar.submitted[0]
            assert job["name"] == f"sijil-{head.id[:8]}-{asked['run']}-1" and job["constraints"] == "region-local-main" and job["nodes"] == 1, job
            assert f"job --jobs=/run/sijil-runner/jobs {asked['run']} 1" in job["script"], job
            done(asked)
            sijil_test.wait_until(lambda: liar.cancelled == [1], 30, "a job waits for a run that was cancelled")
        finally:
            process.terminate()
            assert process.wait(30) == 0
    assert len(liar.submitted) == 1


def two_gateways_give_each_run_to_one_runner():
    runners = [state["runner"], state["other"]]
    asked = [ordered() for _ in range(3)]

    def ask(number):
        runner = runners[number % 2]
        answer = runner.ask(2, port=server.ports[number // 2 % 2])
        if answer.status == 200:  # it begins with this one, so that it gets another
            assert runner.beat(opened(answer.json["lease"])[0]["run"], phase="fetching").status == 200
        return answer
    answers = [ask(0)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers += list(pool.map(ask, (1, 2)))
    answers.append(ask(3))
    given = [opened(answer.json["lease"])[0]["run"] for answer in answers if answer.status == 200]
    assert sorted(given) == sorted(one["run"] for one in asked), (given, [answer.status for answer in answers])
    for one in asked:
        done(one)


def a_copy_of_a_runner_is_noticed():
    runner = state["other"]
    assert runner.ask().status == 204
    runner.session = secrets.token_hex(16)  # the same journal, started elsewhere
    answer = runner.ask()
    assert answer.status == 409 and answer.json["type"] == "runner-suspended", answer.body
    runner.generation = 9
    assert runner.ask(port=server.ports[1]).status == 409
    assert state["world"].events("runner.suspend")
    asks = len(state["world"].events("runner.ask"))
    assert state["runner"].ask().status == 204
    assert len(state["world"].events("runner.ask")) == asks, "each question has an event"


def a_session_is_in_no_row():
    """With the key of a runner and a copy of the database: what its rows have of the session reports nothing."""
    asked, bundle = leased()
    runner = state["runner"]
    assert runner.token(bundle).status == 200
    thief = copy.copy(runner)
    for table in ("run_session", "run_attempt"):
        thief.session = sql(f"SELECT encode(session, 'hex') FROM {table} WHERE key = '{runner.key.name}' LIMIT 1")
        assert len(thief.session) == 32 and thief.token(bundle).status == 409 and thief.beat(asked["run"]).status == 409
    assert runner.token(bundle).status == 200
    done(asked)


def an_old_question_suspends_nothing():
    """A worker that asks is killed, and later the whole runner: their questions still wait here when the next ones come."""
    runner, before = Runner(state["world"], pool="quiet"), len(state["world"].events("runner.suspend"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for session, generation in ((runner.session, 2), (secrets.token_hex(16), 3)):
            old = pool.submit(runner.ask, 2)
            time.sleep(1)
            runner.session, runner.generation = session, generation
            assert runner.ask().status == 204
            assert old.result().status == 204
    runner.generation = 2
    assert runner.ask().status == 204  # one that arrives late
    runner.generation = 3
    assert runner.ask().status == 204 and len(state["world"].events("runner.suspend")) == before


def reports(runner, bundle):
    """All that a runner can say of a lease, but its result."""
    lease = opened(bundle["lease"])[0]
    link = runner.connection()
    logged = Client(server).call("POST", f"/api/v1/runner/runs/{lease['run']}/log?attempt=1&node=0&offset=0", b"more\n",
                                 {"Content-Type": "application/octet-stream", **runner.named()}, connection=link)
    link.close()
    return [runner.start(lease["run"]), runner.beat(lease["run"]), runner.token(bundle), logged]


def a_copy_of_a_disk_can_do_nothing_with_a_lease():
    """It has the key, the certificate, the journal and the bundle, but not the session, which is in memory alone."""
    runner = Runner(state["world"], pool="copied")
    asked = ordered(spec=spec(pool="copied"))
    bundle = runner.lease()
    assert runner.start(asked["run"]).status == 204
    copied = copy.copy(runner)
    for session, status in ((None, 400), (secrets.token_hex(16), 409)):
        copied.session = session
        answers = [*reports(copied, bundle), copied.refuse(bundle, copied.refusal(bundle))]
        assert [answer.status for answer in answers] == [status] * 5, (session, [answer.body for answer in answers])
    assert runner.beat(asked["run"]).json == {"state": "running", "stop": False, "every_ms": 10000}
    token = runner.token(bundle).json["access_token"]
    copied.generation += 1  # as if the runner had been started again: now the copy is the newest session
    assert copied.ask().status == 204
    answers = reports(copied, bundle)
    assert [answer.status for answer in answers] == [409] * 4 and b"another session of this runner has the lease" in answers[1].body, answers[1].body
    assert runner.beat(asked["run"]).status == 409
    answer = runner.ask()  # the next question of the runner itself tells
    assert answer.status == 409 and answer.json["type"] == "runner-suspended", answer.body
    for who in (runner, copied):
        answers = [*reports(who, bundle), who.refuse(bundle, who.refusal(bundle))]
        assert all(answer.status == 409 and b"is suspended" in answer.body for answer in answers), [answer.body for answer in answers]
    answer = runner.send(token, PROJECT + "/trained", b"a model")
    assert answer.status == 401, (answer.status, answer.body)
    state["alice"].wait(asked, "ordered")  # others get the run: no report has kept the lease alive
    done(asked)


def a_withdrawn_runner_gets_nothing_while_it_waits():
    runner = state["leaving"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(runner.ask, 25)
        time.sleep(1)
        runner.withdraw()
        asked = ordered(spec=spec(pool="leaving"))
        assert waiting.result().status == 403
    assert runner.ask().status == 401
    assert state["alice"].run(asked)["state"] == "ordered"
    done(asked)


# ---- rows that no gateway made ----

def an_approval_that_is_only_a_row_does_not_count():
    """The signature is that of an enrolled key. The route refuses it, because nobody is behind the robot."""
    officer = make_person(server, "officer5", "org-admin", "main")
    asking, approving = (Robot(state["world"], name, officer) for name in ("ci3", "ci4"))
    load(approvals=1)
    asked = asking.request(spec=spec(pool="rows"))
    envelope, digest = approving.approval(asked)
    answer = approving.call("POST", f"/{asked['run']}/approvals", envelope)
    assert answer.status == 403, answer.body
    sql(f"INSERT INTO run_envelope (run_id, kind, digest, principal, envelope) VALUES ('{asked['run']}', 'approval', '\\x{digest[7:]}',"
        f" '{approving.principal}', $q${json.dumps(envelope)}$q$); UPDATE run SET state = 'requested' WHERE run_id = '{asked['run']}'")
    asking.wait(asked, "failed")
    assert "an approval that is stored does not count: another person" in asking.run(asked)["reason"], asking.run(asked)
    load()


# ---- crashes ----

def a_gateway_that_is_killed_between_event_and_order_loses_nothing():
    """sijil-keyd is stopped, so a gateway gets as far as the event of the order."""
    silent, first = leased()  # and its runner is not heard any more
    load(approvals=1)
    asked = state["alice"].request()
    load()
    for client in server.clients(server.admin):  # each gateway knows the new set before sijil-keyd stops
        client.api("GET", "/audit/key")
    number = f"SELECT event FROM run_draft WHERE run_id = '{asked['run']}'"
    server.keyd.send_signal(signal.SIGSTOP)
    try:
        sql(f"UPDATE run SET state = 'requested' WHERE run_id = '{asked['run']}'")  # nobody gets a token to approve it now
        sijil_test.wait_until(lambda: sql(number) != "", 60, "no gateway has recorded the event")
        event = sql(number)
        for gateway in range(2):
            server.kill(gateway)
        sql("UPDATE run SET claimed_until = 'epoch' WHERE state = 'requested'")  # the claim of a killed gateway runs out in half a minute
        sql(f"UPDATE run_attempt SET deadline = now() WHERE run_id = '{silent['run']}'")
    finally:
        server.keyd.send_signal(signal.SIGCONT)
    for gateway in range(2):
        server.start_gateway(gateway)
        server.wait_for_gateway(gateway)
    state["alice"].wait(asked, "ordered")
    order = [one for one in state["alice"].run(asked)["envelopes"] if one["kind"] == "order"]
    assert str(opened(order[0]["envelope"])[0]["event"]["number"]) == event
    done(asked)
    state["alice"].wait(silent, "ordered")
    again = state["runner"].lease()
    assert opened(again["lease"])[0]["attempt"] == 2 and opened(again["order"])[1] == opened(first["order"])[1]
    assert state["runner"].beat(silent["run"], attempt=1).json["stop"]
    done(silent)


def a_shutdown_does_not_wait_for_waiting_runners():
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(state["runner"].ask, 29, port=server.ports[1])
        time.sleep(1)
        began = time.monotonic()
        server.stop_gateway(1)
        took = time.monotonic() - began
        assert waiting.result().status == 204
    assert took < 15, f"the shutdown took {took:.1f} s"
    server.start_gateway(1)
    server.wait_for_gateway(1)


if __name__ == "__main__":
    run(prepare, a_waiting_runner_gets_the_run_as_soon_as_it_is_ordered, an_outsider_verifies_the_bundle, an_ended_run_frees_its_places, the_same_session_gets_a_lost_answer_again,
        the_holder_reports_and_nobody_else, approvals_travel_with_the_order, a_refusal_is_signed_by_the_holder,
        a_returned_lease_goes_to_another_runner_at_once, a_lease_that_keyd_refuses_keeps_nobody_waiting, a_refused_lease_ends_the_search,
        a_run_that_the_policies_of_today_forbid_stops, a_run_that_the_policies_forbid_since_its_order_is_not_leased,
        a_requester_that_loses_its_rights_trains_no_more, a_lost_answer_is_decided_again, duties_that_came_after_the_order_count,
        a_dataset_that_is_labelled_anew_after_the_order_stops_the_run, a_heartbeat_believes_no_order_of_a_row,
        a_run_that_can_not_be_decided_does_not_go_on, a_run_that_rows_keep_from_ending_does_not_go_on, a_kept_certificate_that_is_none_keeps_no_refusal_away, an_attempt_has_one_lease_whatever_the_database_says,
        a_runner_gets_only_what_its_document_allows, a_scheduler_sees_sizes_and_no_order,
        people_learn_why_a_run_waits, a_machine_that_schedules_has_one_job_for_each_run, two_gateways_give_each_run_to_one_runner,
        a_copy_of_a_runner_is_noticed, a_session_is_in_no_row, an_old_question_suspends_nothing, a_copy_of_a_disk_can_do_nothing_with_a_lease, a_withdrawn_runner_gets_nothing_while_it_waits, an_approval_that_is_only_a_row_does_not_count,
        a_gateway_that_is_killed_between_event_and_order_loses_nothing, a_shutdown_does_not_wait_for_waiting_runners, server=server)
