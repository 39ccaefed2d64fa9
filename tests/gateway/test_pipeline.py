"""The steps of a request: the decision, the record, and the answer."""
import concurrent.futures
import json
import time
from support import PATIENCE, Server, check, check_soon, finish, read_all, statuses

server = Server()


def counted(before, after):
    return after["recorded"] - before["recorded"], after["outcomes"] - before["outcomes"], after["refused"] - before["refused"]


def counted_since(before, wanted):
    """The counts since then. Waits until they are `wanted`, because the machine may be slow."""
    until = time.monotonic() + PATIENCE
    while (found := counted(before, server.state())) != wanted and time.monotonic() < until:
        time.sleep(0.05)
    return found


# name, method, path, body, status, (events, later events, counted refusals), text in the answer
ROWS = [
    ("an allowed read", "GET", "/v2/", None, 200, (1, 0, 0), "{}"),
    ("a denial says why", "GET", "/v2/denied/pour", None, 403, (1, 0, 0), "T-RULE"),
    ("a denial as a problem", "GET", "/denied", None, 403, (1, 0, 0), '"decision":"sha256:test"'),
    ("a hidden thing", "GET", "/v2/hidden/pour", None, 404, (1, 0, 0), "NAME_UNKNOWN"),
    ("a stranger is challenged", "GET", "/v2/stranger/pour", None, 401, (1, 0, 0), "UNAUTHORIZED"),
    ("no such path", "GET", "/x/y/z/nothing/at/all/", None, 404, (0, 0, 1), "There is no such thing"),
    ("no such method", "DELETE", "/v2/", None, 405, (0, 0, 1), "UNSUPPORTED"),
    ("a body where none may be", "GET", "/v2/", "body", 400, (0, 0, 1), "no body"),
    ("a change has one event", "POST", "/change/a", None, 201, (1, 0, 0), ""),
    ("a change that conflicts", "POST", "/change/a?conflict=1", None, 409, (1, 0, 0), "meanwhile"),
    ("a handler that fails before its change", "POST", "/change/a?invalid=1", None, 400, (1, 1, 0), "not a name"),
    ("a handler that forgets its event gets one", "POST", "/change/a?lazy=1", None, 201, (1, 0, 0), ""),
    ("a change that is denied", "POST", "/change/denied", None, 403, (1, 0, 0), "T-RULE"),
    ("what is nobody's business stays inside", "GET", "/a?fail=1", None, 500, (1, 0, 0), "tell the operator"),
    ("a form that is too large", "POST", "/form/a", "x" * 1001, 413, (0, 0, 1), "at most 1000 bytes"),
    ("a form of the largest size", "POST", "/form/a", "x" * 1000, 200, (1, 0, 0), "body=1000"),
    ("64 arguments", "GET", "/a?" + "&".join(f"a{i}=1" for i in range(64)), None, 200, (1, 0, 0), "body=0"),
    ("65 arguments", "GET", "/a?" + "&".join(f"a{i}=1" for i in range(65)), None, 414, (0, 0, 1), "at most 64"),
]
for name, method, path, body, status, counts, text in ROWS:
    before = server.state()
    found, headers, data = server.get(path, method, body)
    seen = counted_since(before, counts)
    check(name, found == status and text in data.decode() and seen == counts, f"{found} {data!r} {seen}")
    check(name + ": its headers", "X-Request-Id" in headers and ("Sijil-Audit" in headers) == (counts[0] > 0), dict(headers))

status, headers, data = server.get("/v2/hidden/pour")
hidden = (status, data, {k: v for k, v in headers.items() if k not in ("X-Request-Id", "Sijil-Audit", "Date")})
check("errors of /v2 are OCI's", headers["Content-Type"] == "application/json" and json.loads(data)["errors"][0]["code"] == "NAME_UNKNOWN")
check("security headers", headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store")
status, headers, data = server.get("/denied")
check("other errors are problems", headers["Content-Type"] == "application/problem+json" and json.loads(data)["status"] == 403)
asked = json.loads(server.get("/v2/denied/pour")[2])["errors"][0]["detail"]["asked"]
check("a denial names the action and what it is for", asked == "registry.ping denied", asked)
check("the challenge names realm and service", server.get("/v2/stranger/pour")[1]["WWW-Authenticate"] == 'Bearer realm="https://localhost/token",service="sijil"')
check("a bad token is named so", 'error="invalid_token"' in server.get("/v2/stranger/pour", headers={"Authorization": "Bearer x.y.z"})[1]["WWW-Authenticate"])
check("Allow says which methods there are", server.get("/v2/", "PUT")[1]["Allow"] == "GET, HEAD")
check("HEAD has the length and no body", server.get("/v2/", "HEAD")[1]["Content-Length"] == "2" and server.get("/v2/", "HEAD")[2] == b"")
trace = "4bf92f3577b34da6a3ce929d0e0e4736"
server.get("/v2/", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
check_soon("the trace id is in the log", lambda: trace in server.log_text())  # the line is written once the answer is out
check_soon("what failed is in the log", lambda: "secret detail" in server.log_text())
check("no secret is", "x.y.z" not in server.log_text())

# A request that waits is woken, also if the waker comes after its last look and before its wait has begun: the look of a slow machine is 700 ms before the wait.
def rung_while_it_looks(path, rings):
    """How long the answer took, and what it says, if somebody rings 200 ms after the request has begun."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        began = time.monotonic()
        waiting = pool.submit(server.get, path)
        for _ in range(rings):
            time.sleep(0.2)
            server.state("?ring=here")
        answer = waiting.result()
    return time.monotonic() - began, answer[2].decode()


took, text = rung_while_it_looks("/bell/here?rings=1&late_ms=700&wait_ms=12000&looks=9", 1)
check("a bell between look and wait is heard", took < 8 and text == "1 rings, 1 waits\n", (took, text))
took, text = rung_while_it_looks("/bell/here?rings=2&late_ms=0&wait_ms=12000&looks=9", 1)
check("a bell during the wait is heard", took < 8 and text == "2 rings, 1 waits\n", (took, text))
took, text = rung_while_it_looks("/bell/here?rings=9&late_ms=0&wait_ms=1500&looks=0", 0)
check("a bell of before wakes nobody", took >= 1.5 and text == "2 rings, 1 waits\n", (took, text))
took, text = rung_while_it_looks("/bell/elsewhere?rings=9&late_ms=700&wait_ms=1500&looks=0", 1)
check("a bell of another topic wakes nobody", took >= 2 and text == "3 rings, 1 waits\n", (took, text))

# A proxy on this machine is local, but its clients are not.
for name in ("Forwarded", "forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via"):
    status, headers, data = server.get("/metrics", headers={name: "for=203.0.113.7"})
    check(f"/metrics is not passed on by a proxy that says {name}", status == 404 and b"sijil_" not in data, (status, data[:80]))
    check("/healthz is", server.get("/healthz", headers={name: "for=203.0.113.7"})[0] == 200)
check("/metrics is for this machine", server.metric("sijil_connections") is not None)

# If only an allowed request may send a body, the server neither asks for it before the decision nor stores it.
def says(path, body=b""):
    """The answers to a head that waits for "100 Continue", and then to the body."""
    connection = server.connect()
    connection.sendall(b"PUT /taken/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n" % path)
    first = statuses(read_all(connection, 1)[0])
    connection.sendall(body)
    codes = statuses(read_all(connection, 1)[0]) if body else []
    connection.close()
    return first, codes


before = server.state()
check("an allowed body is asked for", says(b"a", b"x" * 100000) == ([100], [201]))
check("and has one event", counted_since(before, (1, 0, 0)) == (1, 0, 0))
before = server.state()
check("a denied one is not", says(b"denied") == ([403], []))
check("and the denial has one event", counted_since(before, (1, 0, 0)) == (1, 0, 0))
check("a denied body that is sent all the same is drained", server.get("/taken/denied", "PUT", b"x" * 3000000)[0] == 403)
server.state("?stale=3")
check("an allowed one that went stale is decided again", server.get("/taken/a", "PUT", b"x" * 3000)[0] == 201)
server.state("?stale=3")
check("and so is a denied one", server.get("/taken/denied", "PUT", b"x" * 3000)[0] == 403)

# A stale decision is made again, but not for ever.
before = server.state("?stale=3")
check("three stale decisions are made again", server.get("/v2/")[0] == 200)
before = server.state("?stale=3")
check("also for a change", server.get("/change/a", "POST")[0] == 201)
server.state("?stale=20")
check("rights that change all the time starve nobody", server.get("/v2/")[0] == 200)
server.state("?stale=20")
check("nor a change", server.get("/change/a", "POST")[0] == 201)
server.state("?stale=1000")
check("a decision that is always stale is 503", server.get("/v2/")[0] == 503)
check("also for a change", server.get("/change/a", "POST")[0] == 503)
server.state("?stale=0")

# A mistake of the caller is not logged as an error. An error of the service is, with the request's id.
def errors():
    return [line for line in server.log_text().splitlines() if '"level":"error"' in line]


before = len(errors())
check("a name that is none", server.get("/change/a?invalid=1", "POST")[0] == 400)
check("a conflict", server.get("/change/a?conflict=1", "POST")[0] == 409)
check("neither is an error in the log", len(errors()) == before, errors()[before:])
status, headers, _ = server.get("/v2/x/sink?fail_at=1", "PUT", "x")
check_soon("an error is in the log", lambda: len(errors()) > before)
told = errors()[before:]
check("a full disk is", status == 507 and len(told) == 1 and headers["X-Request-Id"] in told[0] and "the disk is full" in told[0], told)

# A client that leaves before the answer leaves one event or one counted refusal, also while its event is being recorded.
before = server.state()
for _ in range(100):
    connection = server.connect()
    connection.sendall(b"GET /v2/ HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.close()
check_soon("requests whose client has left end", lambda: server.metric("sijil_requests_in_flight") == 1)


def traces():
    after = server.state()
    return sum(after[kind] - before[kind] for kind in ("recorded", "refused"))


check_soon("each of them left a trace", lambda: traces() >= 100)
check("and no second one", traces() == 100, (before, traces()))

# Without the audit log nothing is done, and no content is sent.
server.state("?log=down")
before = server.state()
status, headers, data = server.get("/v2/x/pour?size=1000")
check("no log: no byte leaves", status == 503 and "Retry-After" in headers and len(data) < 500, status)
check("no log: no change", server.get("/change/a", "POST")[0] == 503)
check("no log: no body is taken", server.get("/v2/x/sink", "PUT", "x" * 100000)[0] == 503)
after = server.wait_for("no log: no sink stays", lambda state: state["sinks"] == 0)
check("no log: no source was read", after["reads"] == before["reads"], after)
check("no log: not ready, but alive", server.get("/readyz")[0] == 503 and server.get("/healthz")[0] == 200)
detail = json.loads(server.get("/readyz")[2])["detail"]
check("it says what is wrong in our own words", detail == "the log can't be written: the database: unavailable; the gateway's log says why", detail)
check_soon("what the database said is in the log", lambda: "audit_entry" in server.log_text())
check("once", server.log_text().count('relation') == 1, server.log_text()[-500:])
check_soon("no log: counted", lambda: server.metric("sijil_unrecorded_total") == 3)
server.state("?log=up")
check("the log is back", server.get("/readyz")[0] == 200 and server.get("/v2/")[0] == 200)

text = server.get("/metrics")[2].decode()
check("metrics have requests by route", 'sijil_request_seconds_count{route="' in text and "\nsijil_connections " in text, text[:500])
server.stop()
finish()
