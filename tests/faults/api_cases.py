"""Cases: the API. Each makes a Try of its own, with its own names."""
import time

from attempt import Try, api_reading, changing
from peers import REGION


def label(number):
    return {"class": "confidential"}


def project_is_whole(world, number, done):
    answer = world.admin.call("GET", f"/api/v1/projects/main/p{number}", scope="registry:admin:*")
    assert answer.status == 200 if done else answer.status in (200, 404), answer.status
    assert answer.status == 404 or answer.json["label"] is not None


def made_robot(world, number):
    return world.admin.api("POST", "/robots", {"organisation": "main", "name": f"r{number}"})["id"]


def made_binding(world, number):
    return world.admin.api("POST", "/bindings", {"robot": made_robot(world, number), "role": "consumer",
                                                 "scope": "main/models"})["id"]


def issuer(number):
    return {"url": f"https://issuer{number}.example", "algorithms": ["ES256"],
            "jwks": {"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256",
                               "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                               "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}}


def trusting(world):
    """Removes the issuers of earlier tries, because each change makes the gateway read all of them."""
    world.machine.sql("DELETE FROM trusted_issuer")
    return changing("POST", "/issuers", lambda _, number: issuer(number), 201,
                    right=lambda answer: answer.json["algorithms"] == ["ES256"])(world)


def policy_load(world):
    epoch = int(world.machine.sql("SELECT max(version) FROM document WHERE kind = 1")) + 1
    document = world.machine.policy_set(epoch)

    def after(done):
        there = world.admin.api("GET", "/policies")
        assert there["epoch"] in ((epoch,) if done else (epoch - 1, epoch)), there
    return Try(lambda: world.admin.call("POST", "/api/v1/policies", document, {"Content-Type": "application/json"},
                                        scope="registry:admin:*"), (201, 202), after=after, repeated=(409,))


def end_jobs(world):
    """Ends the jobs of an earlier try, because only one of a kind may run."""
    world.machine.sql("DELETE FROM job")


def a_job(world):
    """A job that has ended, and so does not change any more."""
    end_jobs(world)
    job = world.admin.api("POST", "/collections", {"project": "main/models"})["id"]
    world.machine.sql("UPDATE job SET ended_at = now(), outcome = 'stopped', lease_until = NULL WHERE ended_at IS NULL")
    return job


def it_completes(world, number, done):
    """After any failure: if there is a job, it ends as a job without failures does."""
    until = time.monotonic() + 60
    while world.machine.sql("SELECT count(*) FROM job WHERE ended_at IS NULL") != "0":
        assert time.monotonic() < until, world.machine.sql("SELECT string_agg(kind || waits_for, ' ') FROM job WHERE ended_at IS NULL")
        time.sleep(0.02)
    bad = world.machine.sql("SELECT string_agg(concat_ws(' ', kind, outcome, found_count, waits_for), '; ') FROM job"
                            " WHERE outcome NOT IN ('completed', 'stopped') OR found_count > 0")
    assert bad == "", bad


def starting(path, document, after=None):
    """Begins a job while no other of its kind runs."""
    case = changing("POST", path, document, 201, (409,), right=lambda answer: answer.json["state"] == "waiting", after=after)

    def alone(world):
        end_jobs(world)
        return case(world)
    return alone


def running(path, document, seconds=2):
    """As starting(), and the failure may come after the answer: the job goes on, or is tried again."""
    begin = starting(path, document, it_completes)

    def case(world):
        attempt = begin(world)
        request = attempt.call

        def call():
            answer, until = request(), time.monotonic() + seconds
            while time.monotonic() < until and world.machine.sql("SELECT count(*) FROM job WHERE ended_at IS NULL") != "0":
                time.sleep(0.005)
            return answer
        attempt.call = call
        return attempt
    return case


def stopping(world):
    """Stops a waiting job: a re-wrap runs for at least a minute."""
    end_jobs(world)
    job = world.admin.api("POST", "/rewraps", {})["id"]
    return Try(lambda: world.admin.call("DELETE", "/api/v1/jobs/" + job, scope="registry:admin:*"), 204, repeated=(404,))


def of_a_job(path, member):
    def case(world):
        job = a_job(world)
        return api_reading(path.format(job), member)(world)
    return case


def forgotten(world):
    """The certificate of a blob that is deleted with its key."""
    digest = world.repository.push_blob(world.bytes(500))
    world.machine.sql(f"DELETE FROM repository_blob WHERE digest = '{digest}';"
                      f" WITH gone AS (DELETE FROM blob WHERE digest = '{digest}' RETURNING blob_id, region_id)"
                      " INSERT INTO abandoned_object (blob_id, region_id) SELECT blob_id, region_id FROM gone")
    path, until = "/projects/main/models/deletions/" + digest, time.monotonic() + 30
    while world.admin.call("GET", "/api/v1" + path, scope="registry:admin:*").status != 200:
        assert time.monotonic() < until, "that its key was forgotten is not recorded"
        time.sleep(0.1)
    return api_reading(path, "certificate")(world)


CASES = {
    "organisation-create": changing("POST", "/organisations", lambda world, n: {"name": f"o{n}"}, 201, (409,)),
    "organisation-list": api_reading("/organisations", "organisations"),
    "organisation-label": changing("PUT", "/organisations/main/label", lambda world, n: label(n), 200),
    "project-create": changing("POST", "/projects", lambda world, n: {"organisation": "main", "name": f"p{n}",
                                                                      "region": REGION, "label": label(n)}, 201, (409,),
                               right=lambda answer: answer.json["label"] is not None, after=project_is_whole),
    "project-list": api_reading("/projects", "projects"),
    "project-read": api_reading("/projects/main/models", "region"),
    "project-label": changing("PUT", "/projects/main/models/label", lambda world, n: label(n), 200),
    "robot-create": changing("POST", "/robots", lambda world, n: {"organisation": "main", "name": f"r{n}",
                                                                  "expires_days": 3}, 201, (409,),
                             right=lambda answer: answer.json["secret"] and answer.json["name"].startswith("robot$main+")),
    "robot-list": api_reading("/robots?organisation=main", "robots"),
    "robot-revoke": changing("DELETE", lambda world, n: "/robots/" + made_robot(world, n), None, 204, (404,)),
    "binding-create": changing("POST", "/bindings", lambda world, n: {"robot": made_robot(world, n), "role": "consumer",
                                                                      "scope": "main/models"}, 201, (409,)),
    "binding-list": api_reading("/bindings?scope=main", "bindings"),
    "binding-revoke": changing("DELETE", lambda world, n: "/bindings/" + made_binding(world, n), None, 204, (403, 404)),
    "issuer-trust": trusting,
    "issuer-list": api_reading("/issuers", "issuers"),
    "issuer-remove": changing("DELETE", lambda world, n: "/issuers/" + world.admin.api("POST", "/issuers", issuer(n))["id"],
                              None, 204, (404,)),
    "repository-label": changing("PUT", "/repositories/main/models/there/label", lambda world, n: label(n), 200),
    "quota-set": changing("PUT", "/projects/main/models/quota", lambda world, n: {"bytes": 1 << 50, "sessions": 900 + n % 100}, 200),
    "quota-read": api_reading("/projects/main/models/quota", "bytes_used"),
    "rules-set": changing("PUT", "/projects/main/models/rules",
                          lambda world, n: {"immutable": [{"repositories": "none", "tags": f"v{n}"}]}, 200),
    "rules-read": api_reading("/projects/main/models/rules"),
    "collection-start": starting("/collections", {"project": "main/models"}, it_completes),
    "collection-try": starting("/collections", {"project": "main/models", "dry_run": True, "rules": {"untagged_days": 0}},
                               it_completes),
    "scrub-start": starting("/scrubs", {"digest": True, "bytes_per_second": 1 << 30}, it_completes),
    "scrub-run": running("/scrubs", {"digest": True, "bytes_per_second": 1 << 30}),
    "collection-run": running("/collections", {"project": "main/models"}),
    "rewrap-start": starting("/rewraps", {}),
    "job-stop": stopping,
    "job-list": api_reading("/jobs?limit=5", "jobs"),
    "job-list-of-project": api_reading("/jobs?limit=5&project=main/models", "jobs"),
    "job-read": of_a_job("/jobs/{}?project=main/models", "report"),
    "job-findings": of_a_job("/jobs/{}/findings", "findings"),
    "key-list": api_reading("/keys", "versions"),
    "region-list": api_reading("/regions", "regions"),
    "deletion-certify": forgotten,
    "policy-read": api_reading("/policies", "epoch"),
    "policy-load": policy_load,
    "audit-list": api_reading("/audit/events?limit=5", "events"),
    "audit-event": api_reading("/audit/events/3", "entry"),
    "audit-entry": api_reading("/audit/events/3/entry"),
    "audit-proof": api_reading("/audit/events/3/proof"),
    "audit-checkpoint": api_reading("/audit/checkpoint"),
    "audit-key": api_reading("/audit/key", "vkey"),
}
