"""Names of other tenants can't be told apart by an answer or by its time, with no credential or with a foreign one.

usage: timing.py [REQUESTS]   of each class, 60 if it is not said; script/soak has 2,000

For each kind of request, three classes of things are requested in random order on one connection: things that exist, things that
do not, and things that exist but that a policy forbids. The area under the ROC curve of two classes is the chance that a request
of one takes longer than a request of the other: 0.5 where time says nothing. Its standard error with n requests of each is about
sqrt(1/(6n)). The bound is 0.05; with few requests it is 5.5 standard errors, which are 0.05 at 2,000."""
import base64
import gc
import itertools
import json
import math
import random
import re
import ssl
import socket
import sys
import time
import urllib.parse
import uuid

from fleet import Fleet
from sijil_test import Issuer, make_robot, run

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 60
BOUND = max(0.05, 5.5 * math.sqrt(1 / (6 * COUNT)))
CLASSES = ("existing", "absent", "forbidden")
SCOPE = "registry:admin:*"
UNLIMITED = {name: 1000000 for name in (
    "denial_rate_per_principal", "denial_rate_per_organisation", "wrong_secrets_per_network", "wrong_secrets_per_name",
    "rights_rate_per_organisation", "rights_rate_per_principal")}

server = Fleet(1, log_level="warning", **UNLIMITED)
admin = None
things = {}  # kind of request -> class -> texts of equal length; each request uses one
logins = {}


class Connection:
    """One connection that is kept; answers whole, with the time to the first byte."""

    def __init__(self):
        context = ssl.create_default_context(cafile=server.ca_file)
        plain = socket.create_connection(("127.0.0.1", server.port), 60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1")

    def ask(self, request):
        began = time.perf_counter_ns()
        self.socket.sendall(request)
        answer = self.socket.recv(65536)
        took = time.perf_counter_ns() - began
        while b"\r\n\r\n" not in answer:
            answer += self.more()
        head, body = answer.split(b"\r\n\r\n", 1)
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        missing = int(lengths[0].split(b":")[1]) if lengths else 0
        while len(body) < missing:
            body += self.more()
        return took, head, body

    def more(self):
        some = self.socket.recv(65536)
        assert some, "the server closed a connection that is kept"
        return some


def area(first, second):
    """The chance that a number of `second` is greater than one of `first`."""
    order = sorted([(number, 0) for number in first] + [(number, 1) for number in second])
    ranks, at = 0.0, 0
    while at < len(order):
        end = at
        while end < len(order) and order[end][0] == order[at][0]:
            end += 1
        ranks += sum(side for _, side in order[at:end]) * (at + end + 1) / 2
        at = end
    return (ranks - len(second) * (len(second) + 1) / 2) / (len(first) * len(second))


def shown(head, body, name):
    """An answer without the parts that differ between any two requests: ids, times, and the requested name."""
    unlike = (b"date:", b"x-request-id:", b"sijil-audit:")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(unlike)]
    text = re.sub(rb'"(instance|decision|at)":"[A-Za-z0-9:.-]*"', b"", b"\n".join([*lines, b"", body]))
    for part in (name, "/".join(name.split("/")[:3])):  # a repository is named without its tag
        for spelled in (part, urllib.parse.quote(part, safe="")):
            text = text.replace(spelled.encode(), b"NAME")
    return text


def measure(what, request_of):
    """`request_of` makes the bytes of a request for a text of things[what.surface]."""
    connection, seen = Connection(), set()
    known = min(len(things[what[0]][each]) for each in CLASSES)  # a name that came before is faster, so all come equally often
    pools = [random.sample(things[what[0]][each], known) for each in CLASSES]
    order = [which for which in range(len(CLASSES)) for _ in range(COUNT)]
    random.shuffle(order)
    times = [[] for _ in CLASSES]
    for pool in pools:  # first requests are slower
        connection.ask(request_of(pool[0]))
    gc.disable()
    for which in order:
        name = random.choice(pools[which])
        took, head, body = connection.ask(request_of(name))
        times[which].append(took)
        seen.add(shown(head, body, name))
    gc.enable()
    assert len(seen) == 1, (what, sorted(seen)[:3])
    status = next(iter(seen)).split(b" ", 2)[1].decode()
    assert status in ("400", "401", "403", "404") or "explained" in what[1], (what, seen)
    areas = {f"{CLASSES[a]}/{CLASSES[b]}": area(times[a], times[b]) for a, b in itertools.combinations(range(len(CLASSES)), 2)}
    middle = [sorted(some)[len(some) // 2] / 1000 for some in times]
    print(f"     {' '.join(what):32} {status}  " + "  ".join(f"{pair} {value:.3f}" for pair, value in areas.items())
          + "  median us " + " ".join(f"{value:.0f}" for value in middle), flush=True)
    return [f"{' '.join(what)}: {pair} {value:.3f}" for pair, value in areas.items() if abs(value - 0.5) > BOUND]


def get(path, credential, method="GET", body=b"", kind=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "User-Agent: timing"]
    lines += [f"Authorization: {credential}"] if credential else []
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    return "\r\n".join([*lines, "", ""]).encode() + body


# --- the things ----------------------------------------------------------------------------------------------------------
def words(count):
    return ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=12)) for _ in range(count)]


def push(repository, tag):
    """Makes a manifest with a tag; returns the digest of its blob and the last part of an upload's Location."""
    blob = random.randbytes(64)
    digest = repository.push_blob(blob)
    assert repository.put_manifest(tag, repository.manifest(blob)).status == 201
    return digest, repository.begin().split("?")[0].rsplit("/", 1)[1]


def absent_session(session):
    return str(uuid.uuid4()) + session[36:]


def fill_project(name, kind):
    """Repositories with a blob, a tag and an upload each."""
    admin.api("POST", "/projects", {"organisation": "globex", "name": name})
    pusher = server.client(make_robot(server, "pusher" + name, "publisher", "globex/" + name, organisation="globex"))
    digests, sessions, repositories, tags = [], [], words(4), words(4)
    for repository in repositories:
        for tag in tags:
            digest, session = push(pusher.repository(f"globex/{name}/{repository}"), tag)
            digests.append(f"globex/{name}/{repository}/blobs/{digest}")
            sessions.append(f"globex/{name}/{repository}/blobs/uploads/{session}")
    things["repository"][kind] = [f"globex/{name}/{each}" for each in repositories]
    things["tag"][kind] = [f"globex/{name}/{each}/manifests/{tag}" for each in repositories for tag in tags]
    things["digest"][kind], things["session"][kind] = digests, sessions


def make_tenant():
    """The organisation globex, and for each thing a missing one with a name of the same length."""
    admin.api("POST", "/organisations", {"name": "globex"})
    for surface in ("repository", "tag", "digest", "session"):
        things[surface] = {}
    fill_project("known", "existing")
    fill_project("bound", "forbidden")
    here = things["repository"]["existing"]
    things["repository"]["absent"] = [f"globex/known/{each}" for each in words(16)]
    things["tag"]["absent"] = [f"{random.choice(here)}/manifests/{each}" for each in words(16)]
    things["digest"]["absent"] = [f"{random.choice(here)}/blobs/sha256:{random.randbytes(32).hex()}" for _ in range(16)]
    things["session"]["absent"] = [f"{each.rsplit('/', 1)[0]}/{absent_session(each.rsplit('/', 1)[1])}"
                                   for each in things["session"]["existing"]]
    things["project"] = {"existing": ["globex/known"], "forbidden": ["globex/bound"],
                         "absent": [f"{organisation}/{each[:5]}" for each in words(4) for organisation in ("globex", "globox")]}
    for kind in ("existing", "forbidden"):
        for name in words(7):
            admin.api("POST", "/projects", {"organisation": "globex", "name": name[:5]})
            things["project"][kind].append(f"globex/{name[:5]}")
    for name in things["project"]["forbidden"]:
        admin.api("PUT", f"/projects/{name}/label", {"class": "secret", "subjects": ["health"]})


def make_robots():
    """Names and ids: of globex, of nobody, of the registry itself; and of one that was revoked, which no name tells."""
    made = [admin.api("POST", "/robots", {"organisation": "globex", "name": each}) for each in words(8)]
    gone = [admin.api("POST", "/robots", {"organisation": "globex", "name": each}) for each in words(8)]
    own = [admin.api("POST", "/robots", {"name": each}) for each in words(8)]
    bound = [admin.api("POST", "/bindings", {"robot": each["id"], "role": "consumer", "scope": "globex/known"}) for each in made]
    raised = [admin.api("POST", "/bindings", {"robot": each["id"], "role": "consumer", "scope": "globex/bound"}) for each in made]
    for robot in gone:
        admin.api("DELETE", "/robots/" + robot["id"])
    things["robot"] = {"existing": [each["name"] for each in made], "forbidden": [each["name"] for each in gone],
                       "absent": [f"robot$globex+{each}" for each in words(16)]}
    things["robot id"] = {"existing": [each["id"] for each in made], "forbidden": [each["id"] for each in own],
                          "absent": [str(uuid.uuid4()) for _ in range(16)]}
    things["registry's robot"] = {"existing": [each["name"] for each in own], "absent": [f"robot${each}" for each in words(8)],
                                  "forbidden": ["robot$main+" + each[:7] for each in words(8)]}
    things["binding id"] = {"existing": [each["id"] for each in bound], "forbidden": [each["id"] for each in raised],
                            "absent": [str(uuid.uuid4()) for _ in range(16)]}


def prepare():
    global admin
    server.start()
    admin = server.client(server.admin)
    admin.api("POST", "/organisations", {"name": "main"}, (201, 409))
    admin.api("POST", "/projects", {"organisation": "main", "name": "models"}, (201, 409))
    make_tenant()
    make_robots()
    logins["robot"] = make_robot(server, "foreign", "publisher", "main/models")
    logins["promoter"] = make_robot(server, "promoter", "promoter", "main/models")
    logins["org-admin"] = make_robot(server, "chief", "org-admin", "main")
    push(server.client(logins["robot"]).repository("main/models/own"), "v1")
    issuer = Issuer("https://token.actions.example", f"https://127.0.0.1:{server.port}")
    admin.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks, "lifetime_max": 900})
    admin.api("POST", "/bindings", {"issuer": issuer.url, "subject": "ci", "role": "publisher", "scope": "main/models"})
    things["issuer"] = issuer


# --- the callers ---------------------------------------------------------------------------------------------------------------
def bearer(login, scope):
    return "Bearer " + server.client(logins[login]).token(scope, fresh=True)


def credentials():
    """No credential; a robot's token without rights there; an issuer's token, which no scope limits."""
    return {"anonymous": None, "a robot's": bearer("robot", "repository:main/models/own:pull,push"),
            "an issuer's": "Bearer " + things["issuer"].token(sub="ci")}


def insist(*failures):
    found = [failure for some in failures for failure in some]
    assert not found, f"told apart by time (bound {BOUND:.3f}): " + "; ".join(found)


def content_is_not_told_apart():
    paths = {"repository": "/v2/{}/manifests/v1", "project": "/v2/{}/some/manifests/v1", "tag": "/v2/{}", "digest": "/v2/{}",
             "session": "/v2/{}"}
    insist(*(measure((surface, who), lambda name, path=path, credential=credential: get(path.format(name), credential))
             for surface, path in paths.items() for who, credential in credentials().items()))


def what_is_not_there_is_not_looked_up_to_push():
    """A push to them, and a mount from them by a caller that may push elsewhere only by mounting."""
    blob = "sha256:" + "0" * 64
    mount = f"/v2/main/models/own/blobs/uploads/?mount={blob}&from="
    credential = bearer("promoter", "repository:main/models/own:pull,push")
    insist(*(measure(("repository", who + " push"), lambda name, known=known: get(f"/v2/{name}/blobs/uploads/", known, "POST"))
             for who, known in credentials().items()),
           measure(("repository", "a promoter's mount"), lambda name: get(mount + name, credential, "POST")))


def administration_is_not_told_apart():
    insist(*(measure((surface, who), lambda name, path=path, method=method, known=known: get(path + name, known, method))
             for surface, path, method in (("project", "/api/v1/projects/", "GET"), ("robot id", "/api/v1/robots/", "DELETE"),
                                           ("binding id", "/api/v1/bindings/", "DELETE"))
             for who, known in (("anonymous", None), ("an org-admin's", bearer("org-admin", SCOPE)))))


def robots_are_not_told_apart_by_logging_in():
    def basic(name):
        return get("/token", "Basic " + base64.b64encode(f"{name}:sijil_wrong".encode()).decode())

    def form(name):
        said = urllib.parse.urlencode({"grant_type": "password", "service": "sijil", "username": name, "password": "sijil_wrong"})
        return get("/token", None, "POST", said.encode(), "application/x-www-form-urlencoded")

    insist(measure(("robot", "Basic"), basic), measure(("robot", "form"), form))


def robots_are_not_told_apart_by_binding_them():
    """An administrator of another organisation binds them there: those of globex, and the registry's own."""
    known = bearer("org-admin", SCOPE)

    def bind(name):
        wanted = {"robot": name, "role": "consumer", "scope": "main/models"}
        return get("/api/v1/bindings", known, "POST", json.dumps(wanted).encode(), "application/json")

    insist(*(measure((surface, "bound"), bind) for surface in ("robot", "robot id", "registry's robot")))


def explanations_do_not_tell_them_apart():
    """An administrator of another organisation asks about somebody there; and each asks about itself, which is always answered."""
    def ask(name, credential, **who):
        wanted = {**who, "action": "manifest.read", "resource": name}
        return get("/api/v1/authz/explain", credential, "POST", json.dumps(wanted).encode(), "application/json")

    chief, robot = bearer("org-admin", SCOPE), bearer("robot", SCOPE)
    insist(measure(("repository", "an org-admin's, explained"), lambda name: ask(name, chief, robot="robot$globex+pusherknown")),
           measure(("repository", "a robot's own, explained"), lambda name: ask(name, robot)),
           *(measure((surface, "robots, explained"), lambda name: ask("main/models/own", chief, robot=name)) for surface in ("robot", "registry's robot")))


def pages_hold_what_may_be_seen_and_nothing_else_counts():
    for number in range(12):
        admin.api("POST", "/organisations", {"name": f"a{number:02}"})
        admin.api("POST", "/projects", {"organisation": f"a{number:02}", "name": "models"})
    for login, organisations in (("org-admin", ["main"]), ("robot", [])):
        client = server.client(logins[login])
        for limit in (1, 100):
            shown_to = client.api("GET", f"/organisations?limit={limit}")
            assert [each["name"] for each in shown_to["organisations"]] == organisations and "next" not in shown_to, shown_to
            shown_to = client.api("GET", f"/projects?limit={limit}")
            assert [each["name"] for each in shown_to["projects"]] == ["main/models"] and "next" not in shown_to, shown_to
    names, page, there = [], {"next": ""}, 12 + 1 + len(things["project"]["existing"] + things["project"]["forbidden"])
    while "next" in page:  # a caller that sees all of them gets several pages
        page = admin.api("GET", f"/projects?limit=5&after={page['next']}")
        names += [each["name"] for each in page["projects"]]
    assert names == sorted(names) and len(names) == there, names


def a_token_for_them_says_nothing():
    """A token is given, without rights: its size and its time are the same."""
    basic = "Basic " + base64.b64encode(":".join(logins["robot"]).encode()).decode()
    connection, sizes, times = Connection(), set(), {each: [] for each in CLASSES}
    order = list(CLASSES) * COUNT
    random.shuffle(order)
    for which in order:
        name = random.choice(things["repository"][which])
        scope = urllib.parse.quote(f"repository:{name}:pull,push")
        took, head, body = connection.ask(get("/token?scope=" + scope, basic))
        assert head.startswith(b"HTTP/1.1 200"), head
        times[which].append(took)
        sizes.add((len(body), json.loads(body).get("scope")))
    assert len(sizes) == 1, sizes
    areas = [(a, b, area(times[a], times[b])) for a, b in itertools.combinations(CLASSES, 2)]
    print("     scope of a token                 200  " + "  ".join(f"{a}/{b} {value:.3f}" for a, b, value in areas), flush=True)
    insist([f"scope: {a}/{b} {value:.3f}" for a, b, value in areas if abs(value - 0.5) > BOUND])


if __name__ == "__main__":
    run(prepare, content_is_not_told_apart, what_is_not_there_is_not_looked_up_to_push, administration_is_not_told_apart,
        robots_are_not_told_apart_by_logging_in, robots_are_not_told_apart_by_binding_them, explanations_do_not_tell_them_apart, a_token_for_them_says_nothing,
        pages_hold_what_may_be_seen_and_nothing_else_counts, server=server)
