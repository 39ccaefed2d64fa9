#!/usr/bin/env python3
"""Runs of several nodes on two gateways: runners that are gathered, a start together, nodes that fail, and one admission for the results of all; gateways
that are killed between two leases and at the barrier."""
import concurrent.futures
import os
import subprocess
import time

import sijil_test
from run_fleet import RunFleet
from run_sender import LOG, Sender, digests, manifest, produced
from run_world import FOLDER, PROJECT, Key, Person, World, opened, spec
from sijil_test import Client, make_robot, program, run, sha256

server = RunFleet(2).start()
sql, load = server.sql, server.load
state = {}


def prepare():
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    state["alice"] = Person(world, "alice")
    state["runners"] = [Sender(world, assurance=2), Sender(world), Sender(world)]
    state["reader"] = server.client(make_robot(server, "reader", "consumer", PROJECT))
    load()


def ordered(nodes=2, **more):
    asked = state["alice"].request(spec=spec(nodes=nodes, **more))
    state["alice"].wait(asked, "ordered")
    return asked


def seen(asked):
    return state["alice"].run(asked)


def gathered(nodes=2, **more):
    """A run of which each node has a lease: the request, and runner and bundle of each node."""
    asked = ordered(nodes, **more)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asking = [(runner, pool.submit(runner.lease, 25, nodes=1, port=server.ports[number % 2])) for number, runner in enumerate(state["runners"][:nodes])]
        held = [(runner, one.result()) for runner, one in asking]
    held.sort(key=lambda pair: opened(pair[1]["lease"])[0]["node"])
    assert [opened(bundle["lease"])[0]["node"] for _, bundle in held] == list(range(nodes))
    assert all(opened(bundle["lease"])[0]["run"] == asked["run"] for _, bundle in held)
    return asked, held


def start(runner, bundle, **more):
    lease = opened(bundle["lease"])[0]
    return runner.start(lease["run"], lease["attempt"], node=lease["node"], **more)


def beat(runner, bundle, **more):
    lease = opened(bundle["lease"])[0]
    return runner.beat(lease["run"], lease["attempt"], node=lease["node"], **more).json


def started(nodes=2, **more):
    """All nodes run."""
    asked, held = gathered(nodes, **more)
    answers = [start(*one) for one in held]
    assert [answer.json["ready"] for answer in answers] == [False] * (nodes - 1) + [True], [answer.body for answer in answers]
    assert seen(asked)["state"] == "running"
    return asked, held


def made_by(node):
    return produced() if node == 0 else {"log": manifest(LOG, "log.txt", b"node %d\n" % node)}


def finish(runner, bundle, made=None, **more):
    made = made or made_by(opened(bundle["lease"])[0]["node"])
    text = runner.result(bundle, digests(made), sha256(made["metrics"].encode()) if "metrics" in made else None, **more)
    return runner.finish(bundle, text, made)


def done(asked):
    answer = state["alice"].call("DELETE", "/" + asked["run"])
    assert answer.status in (204, 409), answer.body


# ---- gathering ----

def nothing_is_leased_before_enough_runners_wait():
    asked, (first, second, _) = ordered(), state["runners"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(first.lease, 25, nodes=1, port=server.ports[0])
        sijil_test.wait_until(lambda: seen(asked).get("nodes_kept") == 1, 20, "no runner is kept")
        shown = seen(asked)
        assert (shown["state"], shown["attempt"], shown["nodes_wanted"]) == ("ordered", 0, 2) and "nodes" not in shown, shown
        assert not waiting.done() and sql(f"SELECT count(*) FROM run_attempt WHERE run_id = '{asked['run']}'") == "0"
        began = time.monotonic()
        other = second.lease(25, nodes=1, port=server.ports[1])  # at the other gateway
        bundle = waiting.result()
    took = time.monotonic() - began
    assert took < 8, f"from the last runner to all leases: {took:.1f} s"
    assert {opened(one["lease"])[0]["node"] for one in (bundle, other)} == {0, 1}
    shown = seen(asked)
    assert (shown["state"], shown["attempt"]) == ("leased", 1) and "nodes_kept" not in shown, shown
    assert [(one["node"], one["phase"]) for one in shown["nodes"]] == [(0, "leased"), (1, "leased")], shown
    assert first.ask(nodes=1).json["lease"] == bundle["lease"], "a lost answer comes again"
    done(asked)


def a_runner_without_nodes_gets_no_such_run():
    asked = ordered()
    for runner in state["runners"]:
        assert runner.ask().status == 204 and runner.ask(nodes=0).status == 204
    assert seen(asked)["nodes_kept"] == 0
    assert state["runners"][0].ask(nodes=257).status == 400
    done(asked)


def a_scheduler_takes_one_node_after_the_other():
    asked, head = ordered(3), state["runners"][0]
    bundles = []
    for node in range(3):
        bundles.append(head.lease(5, nodes=16))
        lease = opened(bundles[-1]["lease"])[0]
        assert (lease["run"], lease["node"]) == (asked["run"], node), lease
        assert not beat(head, bundles[-1], phase="fetching")["stop"]  # it begins with this one, so that it gets the next
    assert seen(asked)["state"] == "leased"
    answers = [start(head, bundle) for bundle in bundles]
    assert [one["node"] for one in answers[-1].json["peers"]] == [0, 1], answers[-1].body
    done(asked)


def a_gathering_is_given_up_and_uses_up_no_attempt():
    asked, (first, second, _) = ordered(), state["runners"]
    assert first.ask(nodes=1).status == 204
    assert seen(asked)["nodes_kept"] == 1
    sql(f"UPDATE run SET gather_until = now() - interval '1 second' WHERE run_id = '{asked['run']}'")
    single = state["alice"].request()
    state["alice"].wait(single, "ordered")
    assert opened(first.lease(5, nodes=1)["lease"])[0]["run"] == single["run"], "the others do not go on"
    done(single)
    assert second.ask(nodes=1).status == 204 and seen(asked)["nodes_kept"] == 0  # it rests
    sql(f"UPDATE run SET gather_after = now() WHERE run_id = '{asked['run']}'")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        leases = [one.result() for one in [pool.submit(runner.lease, 25, nodes=1) for runner in (first, second)]]
    assert {opened(one["lease"])[0]["attempt"] for one in leases} == {1}
    done(asked)


# ---- the start ----

def nodes_start_when_all_are_ready():
    asked, held = gathered(network="tasks")
    run_id, places = asked["run"], ["192.0.2.1:4711", "[2001:db8::2]:4712"]
    for listen in (None, "192.0.2.1", "node.example:1", "192.0.2.1:0"):
        assert start(*held[0], **({"listen": listen} if listen else {})).status == 400, listen
    answer = start(*held[0], listen=places[0])
    assert answer.status == 200 and answer.json == {"ready": False, "every_ms": 1000}, answer.body
    assert start(*held[0], listen=places[0], port=server.ports[1]).json["ready"] is False
    assert start(*held[0], listen="192.0.2.9:1").status == 409, "what the others are told changes"
    second = held[0][0].make_certificate(held[0][1], Key())
    assert start(*held[0], listen=places[0], certificate=second).status == 409, "the key that the others are told changes"
    assert start(*held[1], listen=places[1], certificate=held[0][0].certify(held[0][1])[1]).status == 403, "the key of another node"
    assert held[1][0].start(run_id, node=0, listen=places[1]).status == 404, "the node of another"
    shown = seen(asked)
    assert shown["state"] == "leased" and [one["phase"] for one in shown["nodes"]] == ["waiting", "leased"], shown
    answer = start(*held[1], listen=places[1])
    assert answer.json == {"ready": True, "peers": [{"node": 0, "listen": places[0], "lease": held[0][1]["lease"], "certificate": held[0][0].certify(held[0][1])[1]}]}, answer.body
    assert start(*held[1], listen=places[1]).json == answer.json, "the answer was lost"
    answer = start(*held[0], listen=places[0], port=server.ports[1])
    assert answer.json == {"ready": True, "peers": [{"node": 1, "listen": places[1], "lease": held[1][1]["lease"], "certificate": held[1][0].certify(held[1][1])[1]}]}, answer.body
    shown = seen(asked)
    assert shown["state"] == "running" and [one["phase"] for one in shown["nodes"]] == ["running", "running"], shown
    events = [one for one in state["world"].events("run.start") if run_id in str(one)]
    assert len(events) == 1, events
    done(asked)
    assert start(*held[0], listen=places[0]).status == 409 and beat(*held[1])["stop"]


def a_run_of_one_node_listens_nowhere():
    asked = state["alice"].request()
    bundle = state["runners"][0].lease(nodes=1)
    assert start(state["runners"][0], bundle, listen="192.0.2.1:1").status == 400
    assert start(state["runners"][0], bundle).status == 204
    done(asked)


def each_node_has_its_own_log():
    asked, held = started()
    for number, (runner, _) in enumerate(held):
        link = runner.connection()
        answer = Client(server).call("POST", f"/api/v1/runner/runs/{asked['run']}/log?attempt=1&node={number}&offset=0", b"of node %d\n" % number,
                                     {"Content-Type": "application/octet-stream", **runner.named()}, connection=link)
        link.close()
        assert answer.status == 204, answer.body
    for number in range(2):
        answer = state["alice"].call("GET", f"/{asked['run']}/log?node={number}&offset=0")
        assert answer.status == 200 and answer.body == b"of node %d\n" % number, answer.body
    done(asked)


# ---- the end ----

def other_nodes_push_their_log_alone():
    """A run of 256 nodes could push 256 times what its order allows, by one key that took all leases."""
    asked, held = gathered(limits={**spec()["limits"], "output_bytes": 4 << 20, "log_bytes": 65536})
    (first, own), (second, other) = held
    for runner, bundle in held:
        beat(runner, bundle, phase="fetching")
    token = first.token(own).json["access_token"]
    assert [first.send(token, PROJECT + "/trained", os.urandom(1 << 20)).status for _ in range(4)] == [201] * 4
    token = second.token(other).json["access_token"]
    answers = [second.send(token, PROJECT + "/trained", os.urandom(1 << 20)) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 403], [answer.body for answer in answers]
    assert f"allows {65536 + (1 << 20)} bytes".encode() in answers[1].body, answers[1].body
    done(asked)


def the_silence_of_one_node_ends_all():
    asked, held = started()
    sql(f"UPDATE run_attempt SET deadline = now() WHERE run_id = '{asked['run']}' AND node = 1")
    state["alice"].wait(asked, "ordered")
    heard = beat(*held[0])
    assert heard["stop"] and heard["reason"] == "the runner of node 1 was silent for 40 s", heard
    assert start(*held[0]).status == 409
    with concurrent.futures.ThreadPoolExecutor() as pool:
        leases = [one.result() for one in [pool.submit(runner.lease, 25, nodes=1) for runner in state["runners"][:2]]]
    assert sorted((opened(one["lease"])[0]["attempt"], opened(one["lease"])[0]["node"]) for one in leases) == [(2, 0), (2, 1)]
    done(asked)


def the_refusal_of_one_node_ends_all():
    asked, held = gathered()
    assert held[1][0].refuse(held[1][1], held[1][0].refusal(held[1][1])).status == 204
    shown = seen(asked)
    assert (shown["state"], shown["reason"]) == ("refused", "node 1: devices: no such device"), shown
    heard = beat(*held[0], phase="fetching")
    assert heard["stop"] and heard["reason"] == shown["reason"], heard


def a_node_that_gives_its_lease_back_ends_the_attempt():
    asked, held = gathered()
    assert start(*held[0]).json["ready"] is False
    assert held[1][0].refuse(held[1][1], held[1][0].refusal(held[1][1], check="machine", reason="it stops")).status == 204
    assert seen(asked)["state"] == "ordered"
    answer = start(*held[0])
    assert answer.status == 409 and b"node 1: machine: it stops" in answer.body, answer.body
    assert beat(*held[0], phase="fetching")["reason"] == "node 1: machine: it stops"
    done(asked)


def the_first_node_that_fails_ends_all():
    asked, held = started()
    answer = finish(*held[1], status="failed", exit_status=3, reason="its program ended with 3")
    assert answer.status == 200 and answer.json["state"] == "failed", answer.body
    assert seen(asked)["reason"] == "node 1: its program ended with 3"
    heard = beat(*held[0])
    assert heard["stop"] and heard["reason"] == "node 1: its program ended with 3", heard
    assert finish(*held[0]).status == 409
    (shown,) = [opened(one["envelope"])[0] for one in seen(asked)["envelopes"] if one["kind"] == "result"]
    assert shown["predicate"]["buildDefinition"]["internalParameters"] == {"attempt": 1, "node": 1}, "another result is shown than that which ended the run"
    bundle, verified = verify(asked)
    assert opened(bundle["lease"])[0]["node"] == 1 and "peers" not in bundle
    assert "NOT ADMITTED" in verified.stdout and "the bundle has node 1 alone" in verified.stdout, (verified.stdout, verified.stderr)


def a_node_that_succeeded_before_does_not_hide_which_failed():
    asked, held = started()
    assert finish(*held[0]).json["state"] == "running"
    assert finish(*held[1], status="failed", exit_status=3, reason="its program ended with 3").json["state"] == "failed"
    (shown,) = [opened(one["envelope"])[0] for one in seen(asked)["envelopes"] if one["kind"] == "result"]
    assert shown["predicate"]["runDetails"]["sijil_outcome"]["status"] == "failed", shown


# ---- results ----

def verify(asked):
    keys = server.client(server.admin).api("GET", "/audit/key")
    path, signer = os.path.join(FOLDER.name, "nodes.json"), os.path.join(FOLDER.name, "signer.pem")
    answer = state["alice"].call("GET", f"/{asked['run']}/bundle")
    assert answer.status == 200, answer.body
    with open(path, "wb") as file:
        file.write(answer.body)
    with open(signer, "w", encoding="ascii") as file:
        file.write(keys["documents"])
    verified = subprocess.run([program("sijil-verify"), "run", "--key", keys["vkey"], "--signer", signer, "--root", server.path("approver.pub.pem"), path],
                           capture_output=True, text=True, timeout=60)
    return answer.json, verified


def a_run_is_admitted_with_the_results_of_all_nodes():
    asked, held = started(3)
    answer = finish(*held[1], made=made_by(0))
    assert answer.status == 403 and b"only node 0 has outputs and metrics" in answer.body, answer.body
    for pair in (held[2], held[0]):
        answer = finish(*pair)
        assert answer.status == 200 and answer.json["state"] == "running", answer.body
    assert not beat(*held[1])["stop"]
    assert [one["phase"] for one in seen(asked)["nodes"]] == ["finished", "running", "finished"]
    bundle, verified = verify(asked)
    assert "peers" not in bundle and "the bundle has node 0 alone" in verified.stdout, (verified.stdout, verified.stderr)
    answer = finish(*held[1])
    assert answer.status == 200 and answer.json["state"] in ("finishing", "succeeded"), answer.body
    state["alice"].wait(asked, "succeeded", 60)
    bundle, verified = verify(asked)
    assert verified.returncode == 0 and "all 3 nodes of the attempt have their own lease" in verified.stdout, (verified.stdout, verified.stderr)
    assert "they signed the assurance 2" in verified.stdout and "all that can start programs on this machine" in verified.stdout, verified.stdout
    named = [one["uri"] for one in opened(bundle["admission"])[0]["predicate"]["inputAttestations"]]
    assert named == ["urn:sijil:run-" + name for name in ("request", "order", *("lease", "result") * 3)], named
    assert opened(bundle["admission"])[0]["predicate"]["verifiedLevels"] == ["SIJIL_ASSURANCE_1"]
    outputs = seen(asked)["outputs"]
    assert len(bundle["peers"]) == 2 and len(outputs) == 1
    there, scope = state["reader"].repository(outputs[0]["repository"]), f"repository:{outputs[0]['repository']}:pull"
    found = there.call("GET", "referrers/" + outputs[0]["digest"], scope=scope).json["manifests"]
    logs = {one["annotations"].get("sijil.node"): one["digest"] for one in found if one["artifactType"] == LOG}
    assert set(logs) == {None, "1", "2"}, found
    layer = there.call("GET", "manifests/" + logs["2"], scope=scope).json["layers"][0]["digest"]
    assert there.call("GET", "blobs/" + layer, scope=scope).body == b"node 2\n"
    for peer in bundle["peers"]:  # the very manifests that were signed
        signed = opened(peer["result"])[0]["subject"][0]["digest"]["sha256"]
        assert there.call("GET", "manifests/sha256:" + signed, scope=scope).status == 200
    assert sql(f"SELECT cpu_used_ms >= 15 FROM project_runs JOIN run USING (project_id) WHERE run_id = '{asked['run']}'") == "t"
    assert sql(f"SELECT count(*) FROM run_share WHERE run_id = '{asked['run']}'") == "0", "it has ended"


def a_runner_that_is_withdrawn_before_the_admission_quarantines_the_run():
    state["runners"].append(Sender(state["world"], pool="leaving"))
    stays = Sender(state["world"], pool="leaving")
    asked = ordered(pool="leaving")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        held = [(runner, one.result()) for runner, one in [(runner, pool.submit(runner.lease, 25, nodes=1)) for runner in (state["runners"][-1], stays)]]
    held.sort(key=lambda pair: opened(pair[1]["lease"])[0]["node"])
    for pair in held:
        start(*pair)
    assert finish(*held[1]).status == 200
    held[1][0].withdraw()
    assert finish(*held[0]).status == 200
    state["alice"].wait(asked, "quarantined", 60)
    assert "withdrawn" in seen(asked)["reason"], seen(asked)


# ---- crashes ----

def restart(gateway):
    server.start_gateway(gateway)
    server.wait_for_gateway(gateway)


def a_gateway_that_is_killed_between_two_leases_loses_nothing():
    """One node has its lease, and the other runner waits at the gateway that dies."""
    asked, (first, second, _) = ordered(), state["runners"][:3]
    assert second.ask(nodes=1, port=server.ports[1]).status == 204
    bundle = first.lease(5, nodes=1, port=server.ports[0])
    assert opened(bundle["lease"])[0]["node"] == 0 and seen(asked)["state"] == "ordered"
    server.kill(1)
    assert start(first, bundle).json["ready"] is False
    other = second.lease(5, nodes=1, port=server.ports[0])
    assert opened(other["lease"])[0]["node"] == 1 and seen(asked)["state"] == "leased"
    restart(1)
    assert start(second, other, port=server.ports[1]).json["ready"] and start(first, bundle).json["ready"]
    done(asked)


def all_gateways_are_killed_at_the_barrier():
    asked, held = gathered()
    assert start(*held[0]).json["ready"] is False
    for gateway in range(2):
        server.kill(gateway)
    for gateway in range(2):
        restart(gateway)
    assert start(*held[1]).json["ready"] is True
    assert start(*held[0]).json["ready"] is True and seen(asked)["state"] == "running"
    for pair in held:
        assert finish(*pair).status == 200
    state["alice"].wait(asked, "succeeded", 60)


if __name__ == "__main__":
    run(prepare, nothing_is_leased_before_enough_runners_wait, a_runner_without_nodes_gets_no_such_run, a_scheduler_takes_one_node_after_the_other,
        a_gathering_is_given_up_and_uses_up_no_attempt, nodes_start_when_all_are_ready, a_run_of_one_node_listens_nowhere, each_node_has_its_own_log,
        other_nodes_push_their_log_alone, the_silence_of_one_node_ends_all,
        the_refusal_of_one_node_ends_all, a_node_that_gives_its_lease_back_ends_the_attempt, the_first_node_that_fails_ends_all, a_node_that_succeeded_before_does_not_hide_which_failed,
        a_run_is_admitted_with_the_results_of_all_nodes, a_runner_that_is_withdrawn_before_the_admission_quarantines_the_run,
        a_gateway_that_is_killed_between_two_leases_loses_nothing, all_gateways_are_killed_at_the_barrier, server=server)
