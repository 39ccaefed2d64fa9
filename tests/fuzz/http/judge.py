"""Checks of every answer, and of the server after some hundred cases."""
import hashlib
import json
import re
import time
import urllib.parse

from grammar import INVALID, PROBES

READERS = {"pull", "auditor"}          # it may read, and change nothing
NAMED_FAULTS = {501, 503, 505, 507}    # unknown method, a peer that is away, another HTTP, a full disk: docs/http.md
MEMORY_GROWTH_KIB = 192 << 10          # the sanitizer's quarantines and the caches fill; a leak of 1 KiB in each case would be more
DESCRIPTOR_GROWTH = 8


class Finding(Exception):
    """A failed check. `kind` is one word; the same kind and route is the same finding."""

    def __init__(self, kind, what):
        super().__init__(f"{kind}: {what}")
        self.kind = kind


def path_of(one):
    path = re.sub(r"^https?://[^/]*", "", one["target"], flags=re.IGNORECASE).split("?")[0]
    return urllib.parse.unquote(path)


def is_probe(one, sent):
    path = path_of(one)
    return path in PROBES or path.startswith(("/scim/v2/ResourceTypes/", "/scim/v2/Schemas/")) or (one["edits"] != [] and any(probe.encode() in sent for probe in PROBES))


def judge_rights(one, answer, sent):
    if answer.status >= 300 or is_probe(one, sent):
        return
    who, path = one["credential"], path_of(one)
    says_more = any(name.lower() == "authorization" for name, _ in one["headers"])
    if who in INVALID and not says_more:
        raise Finding("rights", f"{answer.status} for a credential that is {who}")
    if who in READERS and sent.split(b" ", 1)[0] in (b"POST", b"PUT", b"PATCH", b"DELETE") and path != "/token":
        raise Finding("rights", f"{answer.status} of a change for {who}, who may only read")
    if who == "foreign" and path.startswith("/v2/main/"):
        raise Finding("rights", f"{answer.status} in an organisation that is not its own")
    if path.startswith("/audit/") and who != "auditor" and not says_more and not one["edits"]:
        raise Finding("rights", f"{answer.status} of the log for {who}, who is no auditor of the registry")
    if "kept/kept" in path and who not in ("admin", "auditor"):
        raise Finding("rights", f"{answer.status} in a project that nobody here has a role in")


def judge_secrets(world, one, answer):
    if path_of(one) == "/token":
        return
    said = answer.body + repr(answer.fields).encode()
    for who, (_, secret) in world.logins.items():
        if secret.encode() in said:
            raise Finding("secret", f"the answer holds the secret of {who}")
    for who, (token, _) in world.tokens.items():
        if token.rsplit(".", 1)[1].encode() in said:
            raise Finding("secret", f"the answer holds the token of {who}")


def judge_content(one, answer):
    kind = answer["content-type"] or ""
    if answer.body and kind.split(";")[0].endswith("json") and one["method"] != "HEAD":
        try:
            json.loads(answer.body)
        except ValueError:
            # a pushed manifest is served byte for byte, so only our own texts are checked
            if answer.status >= 400 or "/manifests/" not in path_of(one):
                raise Finding("json", f"{answer.status} with a body that is no JSON: {answer.body[:200]!r}") from None
    named = re.fullmatch(r"/v2/.+/blobs/sha256:([0-9a-f]{64})", path_of(one))
    if named and answer.status == 200 and one["method"] == "GET" and not one["edits"]:
        if hashlib.sha256(answer.body).hexdigest() != named[1]:
            raise Finding("content", f"the bytes of {named[1]} are others")


def judge(world, one, answer, sent, clean):
    if answer.status >= 500 and answer.status not in NAMED_FAULTS:
        raise Finding("fault", f"{answer.status} to {one['method']} {one['target'][:200]}: {answer.body[:300]!r}")
    judge_rights(one, answer, sent)
    judge_secrets(world, one, answer)
    judge_content(one, answer)
    if answer.status < 300 and not is_probe(one, sent) and answer["sijil-audit"] is None:
        raise Finding("unrecorded", f"{answer.status} to {one['method']} {one['target'][:200]} without an event")
    if answer.status == 401 and answer["www-authenticate"] is None:
        raise Finding("challenge", "a 401 that does not say how to do better (RFC 9110 section 15.5.2)")
    if clean and answer.status == 400 and answer["x-request-id"] is None:
        raise Finding("refused", f"libmicrohttpd refused a request that is well-formed: {sent[:300]!r}")


class Books:
    """Checks that the log and the counters account for all answers, and that nothing is left behind."""

    def __init__(self, world):
        self.world = world
        self.counts, self.audited, self.unaudited = self.look(), set(), 0
        self.memory, self.descriptors, self.folded = None, None, 0

    def look(self):
        numbers = self.world.metrics()
        return {"refused": numbers.get("sijil_refused_total", 0) + numbers.get("sijil_unrecorded_total", 0),
                "events": self.world.events()}

    def enter(self, one, answer, sent):
        if is_probe(one, sent):
            return
        audit = answer["sijil-audit"]
        if audit is None and answer.status == 401:
            self.folded += 1  # a request of a burst without rights: the burst has one event, with the number of its requests
            return
        if audit is None:
            self.unaudited += 1
            return
        number = int(audit.rsplit("/", 1)[1])
        if number in self.audited and answer.status < 300:
            raise Finding("audit", f"two answers with the event {number}")
        self.audited.add(number)

    def wait_idle(self):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            numbers = self.world.metrics()
            if numbers["sijil_requests_in_flight"] <= 1 and numbers["sijil_connections"] <= 1 and numbers["sijil_streams_in_flight"] == 0:
                return
            time.sleep(0.05)
        raise Finding("stuck", f"requests or connections stay: {numbers}")

    def close(self):
        """Runs after some hundred cases. No other client uses this server, so the sums must be exact."""
        self.wait_idle()
        now = self.look()
        if self.audited and max(self.audited) >= now["events"]:
            raise Finding("audit", f"an answer named the event {max(self.audited)} of {now['events']}")
        if now["events"] - self.counts["events"] < len(self.audited):
            raise Finding("audit", f"{len(self.audited)} events were named, but the log grew by {now['events'] - self.counts['events']}")
        if now["refused"] - self.counts["refused"] < self.unaudited:
            raise Finding("audit", f"{self.unaudited} answers without an event, but {now['refused'] - self.counts['refused']:.0f} are counted")
        self.counts, self.audited, self.unaudited = now, set(), 0
        self.look_at_the_process()
        body = self.world.kept.call("GET", "blobs/" + self.world.kept_digest, scope="repository:kept/kept/golden:pull").body
        if body != b"golden":
            raise Finding("content", f"what was pushed before is {body[:50]!r} now")

    def bursts(self):
        """The number of denials that the log has in bursts that have ended."""
        told, after = 0, ""
        while after is not None:
            page = self.world.clients["auditor"].api("GET", "/audit/events?limit=1000&key=act:system" + after)
            told += sum(event["entry"]["why"]["count"] for event in page["events"]
                        if (event["entry"]["act"], event["entry"]["out"]) == ("denied.burst", "completed"))
            after = "&after=" + page["next"] if "next" in page else None
        return told

    def check_bursts(self):
        """At the end: a burst is recorded when it ends, ten seconds after its begin."""
        until = time.monotonic() + 20
        while (told := self.bursts()) < self.folded:
            if time.monotonic() > until:
                raise Finding("audit", f"{self.folded} denials were folded, but the log has {told}")
            time.sleep(1)

    def look_at_the_process(self):
        memory, descriptors = self.world.memory_kib(), self.world.descriptors()
        if self.memory is None:
            self.memory, self.descriptors = memory, descriptors
        if memory > self.memory + MEMORY_GROWTH_KIB:
            raise Finding("memory", f"{self.memory} KiB grew to {memory} KiB")
        if descriptors > self.descriptors + DESCRIPTOR_GROWTH:
            raise Finding("descriptors", f"{self.descriptors} descriptors grew to {descriptors}")
