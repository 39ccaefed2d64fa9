"""usage: test_run_commands.py SIJIL VECTORS   `sijil run ...` against a stand-in of the registry (tests/support/run_peer.py): waiting, lost connections, logs
in pieces, what a false registry answers, comparing, and each exit status."""
import base64
import hashlib
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from run_peer import KEY, Peer, Run, made, payload  # noqa: E402

SIJIL, VECTORS = os.path.abspath(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")  # SubjectPublicKeyInfo of P-256, before the point
ENDED = {"ended": "2026-11-23T09:01:05.000Z"}


class World:
    def __init__(self, folder):
        self.folder, self.peer = folder, Peer(folder)
        self.host = f"127.0.0.1:{self.peer.server_port}"
        self.key = os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key], check=True)
        self.environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder, "SIJIL_USERNAME": "robot$acme+ci",
                            "SIJIL_PASSWORD": "secret", "SIJIL_CA_FILE": self.peer.ca_file, "COLUMNS": "80"}

    def words(self, name, *more):
        return [SIJIL, "run", name, self.host, made.PROJECT, *map(str, more)]

    def sijil(self, name, *more, code=0):
        done = subprocess.run(self.words(name, *more), capture_output=True, cwd=self.folder, env=self.environment, timeout=120)
        done.stderr = done.stderr.decode()
        assert done.returncode == code, (name, more, done.returncode, done.stdout, done.stderr)
        return done

    def json(self, name, *more, code=0):
        return json.loads(self.sijil(name, "--json", *more, code=code).stdout)

    def on_terminal(self, name, *more):
        """What a terminal shows, and the exit status."""
        main, side = pty.openpty()
        process = subprocess.Popen(self.words(name, *more), stdout=side, stderr=side, stdin=side, env=self.environment, cwd=self.folder)
        os.close(side)
        shown = b""
        try:
            while piece := os.read(main, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(main)
        return shown, process.wait(60)


def waiting_shows_each_step_and_ends_with_the_run(world):
    steps = [{"state": "requested", "attempt": 0}, {"state": "ordered", "runners": {"asked": 0, "fit": 0, "busy": 1, "lack": []}},
             {"state": "leased", "attempt": 1, "phase": "fetching"},
             {"state": "running", "phase": "running", "progress": 40}, {"state": "running", "progress": 41},
             {"state": "failed", "reason": "its program ended with 3", **ENDED}]
    run = world.peer.add(Run(state="awaiting approval", looks=steps))
    done = world.sijil("show", run.id, "--follow", code=7)
    lines = done.stderr.split("\n")
    assert [re.sub(r", \d+:\d\d:\d\d", "", line) for line in lines[:5]] == [
        "requested (waits for its order)", "ordered (waits for a runner of the pool uae-gpu: 1 is busy)", "leased (fetching)", "running 40%", "failed"], lines
    assert lines[4] == "failed, 0:01:05" and "sijil: the run has ended: failed: its program ended with 3" in done.stderr
    assert f"try          sijil run logs {world.host} acme/models {run.id}" in done.stderr, done.stderr
    assert b"its program ended with 3" in done.stdout and b"next " in done.stdout
    again = world.peer.add(Run(outputs={"model": "a"}, state="running", looks=[{"state": "succeeded", **ENDED}]))
    answer = world.json("show", again.id, "--follow")
    assert answer["state"] == "succeeded" and "envelopes" not in answer
    false = world.peer.add(Run(state="running", looks=[{"state": "succeeded", **ENDED}]))
    assert "has no admission of it that holds" in world.sijil("show", false.id, "--follow", code=7).stderr


def a_terminal_has_one_line_that_changes(world):
    run = world.peer.add(Run(outputs={"model": "a"}, state="running", looks=[
        {"progress": 10}, {"progress": 60, "phase": "\x1b[2Jevil"}, {"state": "succeeded", **ENDED}]))
    shown, code = world.on_terminal("show", run.id, "-f")
    assert code == 0 and shown.count(b"\r\x1b[Krunning") == 2 and b"running 60%" in shown and b"\x1b[2J" not in shown, shown


def waiting_goes_on_after_lost_connections(world):
    run = world.peer.add(Run(outputs={"model": "a"}, state="running", looks=[{}, {}, {"state": "succeeded", **ENDED}]))
    world.peer.faults["run"] = [None, "close", 503, "cut"]
    done = world.sijil("show", run.id, "--follow")
    assert done.stderr.count("trying again in") >= 2, done.stderr  # libcurl itself makes a kept connection again that was closed
    world.peer.faults["run"] = [404]
    world.sijil("show", run.id, "--follow", code=3)


def outputs_are_shown_from_what_was_signed(world):
    run = world.peer.add(Run(outputs={"model": "weights"}))
    shown = world.sijil("show", run.id).stdout.decode()
    assert f"sijil pull {world.host}/acme/models/digits@sha256:{made.hex_of('weights')}" in shown, shown
    assert f"next             sijil run bundle {world.host} acme/models {run.id} -o run.json\n" in shown  # a command, and nothing else
    early = world.peer.add(Run(state="failed"))
    early.description["attempt"] = 0
    assert f"next             sijil run start {world.host} acme/models SPEC --key KEY\n" in world.sijil("show", early.id).stdout.decode()
    first = world.peer.add(Run(state="ordered"))
    assert "has taken it again, after the last attempt ended without a result; one must give\n" in world.sijil("show", first.id).stdout.decode()
    first.description["attempt"] = 0
    waits = world.sijil("show", first.id).stdout.decode()
    assert "waits            no runner of the pool uae-gpu has taken it yet; one must give\n" in waits and "devices 1 of gpu, in AE" in waits, waits
    assert "\nrunners " not in waits, waits  # an older registry does not say
    waiting = world.peer.add(Run(state="ordered"))
    assert "has taken it again, after the last attempt ended without a result; one must give\n" in world.sijil("show", waiting.id).stdout.decode()
    waiting.description["runners"] = {"asked": 3, "fit": 0, "lack": [{"what": "memory", "runners": 3}, {"what": "\x1b[2Jnew", "runners": 1}]}
    waits = world.sijil("show", waiting.id).stdout.decode()
    assert "runners          3 asked for work in the last two minutes, and 0 of them fit; of these runners are\n" \
           "                 3 with too little free memory\n                 1 lacking ?[2Jnew\n" in waits, waits
    waiting.description["runners"] = {"asked": 0, "fit": 0, "lack": []}
    assert "runners          none that may take it has asked" in world.sijil("show", waiting.id).stdout.decode()
    waiting.description["runners"] = {"asked": 2, "fit": 1, "lack": [{"what": "region", "runners": 1}]}
    assert "2 asked for work in the last two minutes, and 1 of them fit: an older run" in world.sijil("show", waiting.id).stdout.decode()
    waiting.description["runners"] = {"asked": 0, "fit": 0, "busy": 2, "lack": []}
    waits = world.sijil("show", waiting.id).stdout.decode()
    assert "runners          2 are busy with other runs\n" in waits and "is one running" not in waits and "of the pool uae-gpu: 2 are busy)" in waits, waits
    waiting.description["runners"] = {"asked": 2, "fit": 1, "lack": [{"what": "region", "runners": 1}]}
    shown = json.loads(world.sijil("show", waiting.id, "--json").stdout)
    assert shown["runners"]["lack"] == [{"what": "region", "runners": 1}], shown
    run.description["doubts"] = [{"runner": made.RUNNER, "key": "k", "since": "2026-11-26T09:00:00.000Z", "reason": "stolen", "noted": "x"}]
    shown = world.sijil("show", run.id).stdout.decode()
    assert f"doubts           results of the runner {made.RUNNER} do not count since 2026-11-26T09:00:00.000Z: stolen\n" in shown, shown
    held = world.peer.add(Run(outputs={"model": "weights"}, state="quarantined"))
    shown = world.sijil("show", held.id).stdout.decode()
    assert "model (not admitted)" in shown and "sijil pull" not in shown, shown
    other = world.peer.add(Run(outputs={"model": "weights"}))
    whole = other.envelopes
    for false in ([run.envelopes[0], *whole[1:]], [*whole[:2], run.envelopes[2]]):  # the request, the result of another run
        other.envelopes = false
        assert "of another run" in world.sijil("show", other.id, code=6).stderr


def what_a_token_asked_for_is_asked_for_by_a_token(world):
    claims = {"issuer": "sijil:rule", "subject": "acme:gh-train", "token": "sha256:" + made.hex_of("token")}
    run = world.peer.add(Run(state="expired", claims=claims, requester="ext:" + hashlib.sha256(b"sijil:rule\nacme:gh-train").hexdigest()))
    shown = world.sijil("show", run.id).stdout.decode()
    assert f"next             sijil run start {world.host} acme/models SPEC --by-token --expires HOURS\n" in shown, shown
    assert "if the policies ask for approvals, it needs one approval more than the policies ask for\n" in shown, shown
    robot = "robot:" + made.RUNNER
    asked = world.peer.add(Run(state="expired", requester=robot, claims={**claims, "issuer": "sijil:registry", "subject": made.RUNNER}))
    asked.description |= {"requester": robot, "people": [{"principal": robot, "robot": "acme+\x1b[2Jci"}, {"principal": made.REQUESTER, "robot": "acme+other"}]}
    shown = world.sijil("show", asked.id).stdout.decode()
    assert f"{robot} is the robot acme+?[2Jci, as the registry says\n" in shown and "acme+other" not in shown, shown
    spec = os.path.join(world.folder, "asked.json")
    with open(spec, "w", encoding="utf-8") as file:
        json.dump(made.spec(), file)
    words = [SIJIL, "run", "start", world.host, made.PROJECT, spec]
    done = subprocess.run(words, capture_output=True, text=True, env=world.environment, timeout=60, check=False)
    assert done.returncode == 2 and "--by-token, for the token of the login, is needed" in done.stderr, done.stderr
    world.peer.self = {"kind": "rule", "name": "acme:gh-train", "audience": made.ORIGIN}
    done = subprocess.run([*words, "--key", world.key], capture_output=True, text=True, env=world.environment, timeout=60, check=False)
    world.peer.self = None
    assert done.returncode == 1 and "a trust rule (a CI job), which has no key of its own" in done.stderr, done.stderr


def a_run_of_several_nodes_shows_each(world):
    run = world.peer.add(Run(state="ordered"))
    run.description |= {"nodes_wanted": 4, "nodes_kept": 3, "runners": {"asked": 3, "fit": 3, "lack": []}}
    assert "3 asked for work in the last two minutes, and 3 of them fit: all nodes begin together, so more may have to come" in world.sijil("show", run.id).stdout.decode()
    assert "ordered (waits for runners of the pool uae-gpu: 3 of 4 nodes have one)" in world.sijil("show", run.id).stdout.decode()
    run = world.peer.add(Run(state="running"))
    run.description["nodes"] = [{"node": 0, "runner": made.RUNNER, "phase": "running", "progress": 40},
                                {"node": 1, "runner": made.OTHER_RUNNER, "phase": "\x1b[2Jevil"}]
    shown = world.sijil("show", run.id).stdout.decode()
    assert f"nodes            0 running 40%, runner {made.RUNNER}\n" in shown and f"1 ?[2Jevil, runner {made.OTHER_RUNNER}\n" in shown, shown


def a_specification_is_read_member_by_member(world):
    """A script has its lines, and no text of it looks like another member."""
    spec = {**made.spec(), "argv": ["/bin/sh", "-c", "set -e\npython3 train.py\nlimits: none\n"], "environment": {"LR": "0.1", "NOTE": "a\u202eb"}}
    run = world.peer.add(Run(spec=spec))
    run.envelopes.append(("approval", made.seal(made.TYPES["approval"], made.approval(run.requested), KEY)))
    shown = world.sijil("show", run.id).stdout.decode()
    assert "  argv:\n    - \"/bin/sh\"\n    - \"-c\"\n    - |\n      | set -e\n      | python3 train.py\n      | limits: none\n      | \n" in shown, shown
    assert "  environment:\n    LR: \"0.1\"\n    NOTE: \"a\\u202eb\"\n" in shown, shown
    assert shown.count("\n  limits:\n    cpus: ") == 1 and f"approved_by      {made.APPROVER}\n" in shown, shown


def a_log_comes_in_pieces_whatever_happens(world):
    text = bytes(range(256)) * 3
    run = world.peer.add(Run(state="failed", log=text))
    world.peer.faults["log"] = [None, "close", "cut", 503]
    assert world.sijil("logs", run.id).stdout == text
    run.log_ends = False
    assert world.sijil("logs", run.id).stdout == text  # what is there by now
    assert world.sijil("logs", run.id, "--node", 0, "--attempt", 1).stdout == text
    assert any(path.endswith("/log?node=0&offset=0&wait_s=0&attempt=1") for _, path in world.peer.asked), world.peer.asked
    assert "the run has 1 nodes, from 0 on: there is no node 3" in world.sijil("logs", run.id, "--node", 3, code=3).stderr
    world.sijil("logs", run.id, "--attempt", 9, code=3)
    world.sijil("logs", run.id, "--attempt", 0, code=2)
    world.sijil("logs", run.id, "--node", 256, code=2)
    shown, code = world.on_terminal("logs", world.peer.add(Run(state="failed", log="a\x1b[31mred\u202e\u4e2d\n".encode())).id)
    assert code == 0 and shown == "a?[31mred???\u4e2d\r\n".encode(), shown


def what_a_log_lacks_is_said(world):
    """The result names the length of the log that the runner had: 2048 bytes."""
    whole = world.peer.add(Run(outputs={"model": "a"}, log=b"x" * 2048))
    assert world.sijil("logs", whole.id).stdout == b"x" * 2048
    cut = world.peer.add(Run(outputs={"model": "a"}, log=b"x" * 2000))
    for more in ((), ("--follow",), ("--attempt", 1)):
        done = world.sijil("logs", cut.id, *more, code=6)
        assert done.stdout == b"x" * 2000 and "has 2000 of its 2048 bytes" in done.stderr, done
    early = world.peer.add(Run(state="failed"))
    early.description |= {"attempt": 0, "reason": "the policies forbid it"}
    for more in ((), ("--follow",)):
        assert "no runner has begun this run: failed: the policies forbid it" in world.sijil("logs", early.id, *more, code=3).stderr
    late = world.peer.add(Run(state="failed"))
    late.logs[9] = b""
    assert "has had 1 of its attempts, and not 9" in world.sijil("logs", late.id, "--attempt", 9, code=3).stderr


def lists_and_logs_can_be_short(world):
    runs = [world.peer.add(Run(state="failed", log=b"".join(b"line %d\n" % i for i in range(100)))) for _ in range(3)]
    runs[2].description["reason"] = "its program ended with 3, and said much about it, more than fits into one line of a terminal"
    lines = world.sijil("list", "--limit", 2).stdout.decode().split("\n")
    assert [line.split(" ")[0] for line in lines] == ["ID", runs[2].id, runs[1].id, ""] and made.REQUESTER in lines[1], lines
    shown, code = world.on_terminal("list", "--limit", 1)
    assert code == 0 and max(len(line) for line in shown.decode().split("\r\n")) <= 80 and b"failed" in shown, shown
    world.sijil("list", "--limit", 0, code=2)
    assert "--state runing: did you mean 'running'?" in world.sijil("list", "--state", "runing", code=2).stderr
    assert "sijil help run list has all" in world.sijil("list", "--state", "x" * 9, code=2).stderr
    for more in ((), ("--follow",)):
        assert world.sijil("logs", runs[0].id, "--tail", 3, *more).stdout == b"line 97\nline 98\nline 99\n"
    assert world.sijil("logs", runs[0].id, "--tail", 1000).stdout.startswith(b"line 0\n")
    assert world.sijil("logs", world.peer.add(Run(state="failed", log=b"one\ntwo")).id, "--tail", 1).stdout == b"two"
    assert world.sijil("logs", world.peer.add(Run(state="failed")).id, "--tail", 1).stdout == b""


def following_a_log_goes_through_all_attempts(world):
    run = world.peer.add(Run(state="ordered", log=b"lost in the", looks=[
        {"attempt": 0}, {"attempt": 0}, {"attempt": 1, "state": "running"}, {"state": "ordered"}, {"attempt": 2, "state": "running"},
        {"state": "succeeded", **ENDED}]))
    run.logs[2] = b"second attempt: all is well\n"
    done = world.sijil("logs", run.id, "-f")
    assert done.stdout == b"lost in thesecond attempt: all is well\n", done.stdout
    assert "attempt 2\n" in done.stderr and "ordered (waits for a runner" in done.stderr, done.stderr


def a_false_registry_shows_no_part_twice(world):
    run = world.peer.add(Run(state="failed", log=b"0123456789abcdef"))
    log_of = world.peer.RequestHandlerClass.log_of

    def false(handler, run, query):
        log_of(handler, run, {**query, "offset": ["3"]})
    world.peer.RequestHandlerClass.log_of = false
    try:
        done = world.sijil("logs", run.id, code=6)
        assert done.stdout == b"" and "another part of the log" in done.stderr, done
        world.peer.RequestHandlerClass.log_of = lambda handler, run, query: handler.answer(200, b"text without a size")
        assert "older than this program" in world.sijil("logs", run.id, code=1).stderr
    finally:
        world.peer.RequestHandlerClass.log_of = log_of


def a_run_that_another_node_ended_has_that_node_s_log(world):
    """Its advice names the node; only what a runner has signed is saved, and the message says why another log is not."""
    text, path = b"epoch 1\n" * 256, os.path.join(world.folder, "node.log")
    two = {"spec": {**made.spec(), "nodes": 2}}
    run = world.peer.add(Run(outputs={}, state="failed", log=text, node=1, outcome="failed", **two))
    command = f"sijil run logs {world.host} acme/models {run.id} --node 1\n"
    assert f"next             {command}" in world.sijil("show", run.id).stdout.decode()
    done = world.sijil("show", run.id, "--follow", code=7)
    assert f"try          {command}" in done.stderr and f"next             {command}".encode() in done.stdout, done
    assert "the result of node 1, and not that of node 0: --node 1 saves" in world.sijil("logs", run.id, "--output", path, code=3).stderr
    assert not os.path.exists(path)
    world.sijil("logs", run.id, "--output", path, "--node", "1")
    with open(path, "rb") as file:
        assert file.read() == text
    assert "there is no node 2" in world.sijil("logs", run.id, "--output", path, "--node", "2", code=3).stderr
    lost = world.peer.add(Run(outputs={}, state="failed", node=1, **two))  # this node had done its part before another one was lost
    assert "--node" not in world.sijil("show", lost.id).stdout.decode()
    ended = world.sijil("logs", world.peer.add(Run(state="cancelled", log=text)).id, "--output", path, code=3).stderr
    assert "has ended as cancelled, and no runner has signed a result of attempt 1 before" in ended, ended
    assert "the run is running, and its runner signs" in world.sijil("logs", world.peer.add(Run(state="running")).id, "--output", path, code=3).stderr


def a_log_that_is_kept_no_longer_has_a_way_out(world):
    run = world.peer.add(Run(outputs={"model": "weights"}))
    world.peer.faults["log"] = [410]
    done = world.sijil("logs", run.id, code=1)
    assert f"try          sijil pull {world.host}/acme/models/digits@sha256:{hashlib.sha256(run.manifest).hexdigest()}" in done.stderr, done.stderr
    world.peer.faults["log"] = [410]
    done = world.sijil("logs", world.peer.add(Run(outputs={"model": "weights"}, spec={**made.spec(), "nodes": 2})).id, "--node", "1", code=1)
    assert "sijil pull" not in done.stderr, done.stderr  # that would be the log of node 0
    world.peer.faults["log"] = [410]
    assert "sijil pull" not in world.sijil("logs", world.peer.add(Run(state="failed")).id, code=1).stderr


def a_saved_log_is_the_signed_one_or_none(world):
    """The result of the vectors says 2048 bytes; its subject is the digest of the manifest that names the log."""
    text, path = b"epoch 1\n" * 256, os.path.join(world.folder, "saved.log")

    def content(name):
        with open(name, "rb") as file:
            return file.read()

    def refused(run, why, code=6):
        done = world.sijil("logs", run.id, "--output", path, code=code)
        assert why in done.stderr and content(path) == b"old" and content(path + ".part") == b"my own", done.stderr
        assert sorted(name for name in os.listdir(world.folder) if name.startswith("saved")) == ["saved.log", "saved.log.part"]
    for name, old in ((path, b"old"), (path + ".part", b"my own")):
        with open(name, "wb") as file:
            file.write(old)
    refused(world.peer.add(Run(outputs={}, state="failed", log=text[:-1] + b"!", signed_log=text)), "another log than the runner has signed")
    refused(world.peer.add(Run(outputs={}, state="failed", log=text + b"more", signed_log=text)), "another log than the runner has signed: 2052 bytes")
    other = world.peer.add(Run(outputs={}, state="failed", log=text))
    other.manifest = other.manifest.replace(b"text/plain", b"text/other")
    refused(other, "another manifest of the log")
    other.manifest = None
    refused(other, "does not have the manifest of the log", code=3)
    refused(world.peer.add(Run(outputs={}, state="failed", log=text[:-1], signed_log=text)), "has 2047 of its 2048 bytes")
    world.sijil("logs", world.peer.add(Run(outputs={}, state="failed", log=text)).id, "--output", path)
    assert content(path) == text and content(path + ".part") == b"my own"


def pem(world, name, point):
    path = os.path.join(world.folder, name + ".pem")
    with open(path, "w", encoding="ascii") as file:
        file.write("-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(HEAD + bytes.fromhex(point)).decode() + "-----END PUBLIC KEY-----\n")
    return path


def a_bundle_is_kept_and_verified(world):
    whole = VECTORS["bundles"][0]["bundle"]
    text = json.dumps(whole).encode()
    world.peer.bundles[made.RUN] = text
    path = os.path.join(world.folder, "kept.json")
    with open(path, "w", encoding="ascii") as file:
        file.write("old")
    world.peer.faults["bundle"] = ["cut"]
    world.sijil("bundle", made.RUN, "-o", path)
    with open(path, "rb") as file:
        assert file.read() == text
    assert world.sijil("bundle", made.RUN).stdout == text
    world.sijil("bundle", str(Run().id), "-o", path, code=3)
    with open(path, "rb") as file:
        assert file.read() == text  # nothing is overwritten by a failure
    world.sijil("bundle", made.RUN, "-o", "/nowhere/x", code=1)
    points = VECTORS["points"]
    keys = ["--key", VECTORS["vkey"], "--signer", pem(world, "keyd", points["keyd"]), "--root", pem(world, "root", points["root"])]
    shown = world.sijil("verify", made.RUN, *keys).stdout.decode()
    assert "sijil-keyd admitted" in shown and "Not proven:" in shown, shown
    assert "the region local/dxb and the jurisdictions AE;" in shown and "the approvers vouch" in shown, shown
    verified = world.json("verify", made.RUN, *keys)
    assert verified["verified"] is True and verified["runner"]["trusted"] == ["root of the machine", "approvers"], verified
    assert verified["runner"]["assurance"] == 3 and verified["runner"]["region"] == "local/dxb", verified
    pins = {"schema": "sijil.runner-registry/v1", "url": "https://registry.example", "audience": made.ORIGIN, "log_key": VECTORS["vkey"],
            "signer": made.url64(bytes.fromhex(points["keyd"])), "root": made.url64(bytes.fromhex(points["root"]))}
    with open(os.path.join(world.folder, "registry.json"), "w", encoding="utf-8") as file:
        json.dump(pins, file)
    assert "sijil-keyd admitted" in world.sijil("verify", made.RUN, "--pins", "registry.json").stdout.decode()
    wrong = [*keys[:4], "--root", pem(world, "other", points["keyd"])]
    assert "NOT verified: " in world.sijil("verify", made.RUN, *wrong, code=6).stderr
    world.sijil("verify", made.RUN, *keys[:4], code=2)
    world.sijil("verify", made.RUN, *keys, "--pins", "registry.json", code=2)
    other = str(Run().id)
    world.peer.bundles[other] = text
    assert "the bundle of another run" in world.sijil("verify", other, *keys, code=6).stderr
    for false, says in ((text, "the bundle of another run"), (b"{}", "something that is no bundle"), (b"[", "something that is no bundle")):
        world.peer.bundles[other] = false
        assert says in world.sijil("bundle", other, "-o", path, code=6).stderr
        with open(path, "rb") as file:
            assert file.read() == text  # as it was
    world.peer.bundles[made.RUN] = text.replace(b'"admission"', b'"admissiom"')
    assert "NOT verified: " in world.sijil("verify", made.RUN, *keys, code=6).stderr


def a_rerun_names_the_old_run_and_compares(world):
    old = world.peer.add(Run(outputs={"model": "weights"}))
    world.peer.next_run = dict(outputs={"model": "weights"}, state="running", looks=[{}, {"state": "succeeded", **ENDED}])
    done = world.sijil("rerun", old.id, "--key", world.key, "--compare")
    asked = next(run for run in world.peer.runs.values() if hasattr(run, "asked")).asked
    assert asked["rerun"] == {"run": old.id, "order": made.digest(old.envelopes[1][1])} and asked["spec"] == payload(old.requested)["spec"], asked
    assert asked["run"] != old.id and asked["nonce"] != payload(old.requested)["nonce"] and asked["requester"] == made.REQUESTER
    assert done.stdout.decode() == f"model  equal  sha256:{made.hex_of('weights')}\n", done.stdout
    assert f"sijil run compare {world.host} acme/models {old.id} {asked['run']}" in done.stderr, done.stderr
    return old


def what_differs_has_its_own_exit_status(world):
    old = world.peer.add(Run(outputs={"model": "weights"}))
    world.peer.next_run = dict(outputs={"model": "others"}, state="running", looks=[{}, {"state": "succeeded", **ENDED}])
    answer = world.json("rerun", old.id, "--key", world.key, "--compare", code=8)
    assert answer["equal"] is False and answer["rerun"] == old.id, answer
    assert answer["outputs"] == [{"name": "model", "equal": False, "before": "sha256:" + made.hex_of("weights"), "after": "sha256:" + made.hex_of("others")}]
    same = world.peer.add(Run(outputs={"model": "weights"}))
    assert world.json("compare", old.id, same.id)["equal"] is True
    more = world.peer.add(Run(outputs={"model": "weights", "more": "x"}))
    more.envelopes[0] = world.peer.add(Run(run=more.id)).envelopes[0]
    failed = world.peer.add(Run(state="failed"))
    world.sijil("compare", old.id, failed.id, code=7)
    assert "no outputs to compare" in world.sijil("compare", failed.id, old.id, code=1).stderr
    world.sijil("compare", old.id, "x", code=2)
    before = len(world.peer.asked)
    assert "no outputs to compare" in world.sijil("rerun", failed.id, "--key", world.key, "--compare", code=1).stderr
    assert not [one for one in world.peer.asked[before:] if one[0] == "POST"], "a request was sent, although nothing can be compared"
    waiting = world.peer.add(Run(state="awaiting approval"))
    assert "no order" in world.sijil("rerun", waiting.id, "--key", world.key, code=1).stderr
    false = world.peer.add(Run())
    false.envelopes[1] = old.envelopes[1]
    assert "order of another request" in world.sijil("rerun", false.id, "--key", world.key, code=6).stderr


def a_start_waits_and_shows_the_log(world):
    spec = os.path.join(world.folder, "spec.yaml")
    with open(spec, "w", encoding="utf-8") as file:
        json.dump({name: value for name, value in made.spec().items() if name not in ("pool", "nodes")}, file)
    world.peer.next_run = dict(outputs={"model": "a"}, state="requested", log=b"epoch 1\nepoch 2\n", looks=[
        {"attempt": 0}, {"attempt": 0}, {"state": "running", "attempt": 1}, {"state": "succeeded", **ENDED}])
    done = world.sijil("start", spec, "--key", world.key, "--follow")
    assert done.stdout.startswith(b"epoch 1\nepoch 2\n") and b"sijil pull " in done.stdout, done.stdout
    assert "it goes on also when this ends" in done.stderr
    world.peer.next_run = dict(state="requested", looks=[{}, {"state": "refused", "reason": "devices: no such device", **ENDED}])
    done = world.sijil("start", spec, "--key", world.key, "--wait", "--json", code=7)
    assert json.loads(done.stdout)["reason"] == "devices: no such device" and json.loads(done.stderr)["try"].startswith("sijil run start"), done
    world.sijil("start", spec, "--key", world.key, "--follow", "--json", code=2)
    world.peer.false = {"id": made.RUN}
    assert "another run" in world.sijil("start", spec, "--key", world.key, code=6).stderr
    world.peer.false = {}
    with open(spec, "a", encoding="utf-8") as file:
        file.write("\nx")
    before = len(world.peer.asked)
    world.sijil("start", spec, "--key", world.key, code=1)
    assert len(world.peer.asked) == before


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder)
        for test in (waiting_shows_each_step_and_ends_with_the_run, a_terminal_has_one_line_that_changes, waiting_goes_on_after_lost_connections,
                     outputs_are_shown_from_what_was_signed, what_a_token_asked_for_is_asked_for_by_a_token, a_run_of_several_nodes_shows_each, a_specification_is_read_member_by_member,
                     what_a_log_lacks_is_said, lists_and_logs_can_be_short, a_log_comes_in_pieces_whatever_happens, following_a_log_goes_through_all_attempts,
                     a_false_registry_shows_no_part_twice, a_run_that_another_node_ended_has_that_node_s_log, a_log_that_is_kept_no_longer_has_a_way_out, a_saved_log_is_the_signed_one_or_none,
                     a_bundle_is_kept_and_verified, a_rerun_names_the_old_run_and_compares,
                     what_differs_has_its_own_exit_status, a_start_waits_and_shows_the_log):
            world.peer.faults.clear()
            world.peer.next_run = None
            test(world)
            print("ok", test.__name__)


main()
