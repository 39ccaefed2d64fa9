"""What requests cost as the database grows: 10^3 to 10^6 blobs, a tenth as many tags in one repository, a hundredth as many
repositories, half of them empty and the others with one artifact. The filler is rows only; what is asked for was pushed before, and is real."""
import json
import os
import subprocess
import time

import parts
import tables
from registries import REPOSITORY, Sijil, load
from sijil_test import follow, sha256

REAL = 400  # artifacts that are asked for; fewer than the gateway keeps in memory
INDEX = "application/vnd.oci.image.manifest.v1+json"

# As an administrator's COPY of years of pushes would leave it; $from and $to are blobs, what is below is counted from them. A
# fiftieth less than a tenth are tags, so that a repository is never larger than what retention rules judge.
FILLER = """
SET session_replication_role = replica;
CREATE TEMP TABLE place AS SELECT r.repository_id, b.project_id, b.region_id, b.key_version, b.wrapped_key, b.commitment, k.key_id
  FROM repository r JOIN blob b USING (project_id) JOIN project_key k USING (project_id)
 WHERE r.full_name = '$repository' AND k.is_current LIMIT 1;
CREATE FUNCTION pg_temp.name(kind text, n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT 'sha256:' || encode(sha256((kind || n)::bytea), 'hex') $$;
INSERT INTO blob (blob_id, project_id, region_id, digest, size_bytes, part, key_version, wrapped_key, commitment, created_at, lease_until)
  SELECT md5('blob' || n)::uuid, project_id, region_id, pg_temp.name('blob', n), 1000000, 0, key_version, wrapped_key, commitment,
         now() - interval '30 days', now() - interval '29 days' FROM place, generate_series($from + 1, $to) n;
INSERT INTO repository_blob (repository_id, digest, blob_id)
  SELECT repository_id, pg_temp.name('blob', n), md5('blob' || n)::uuid FROM place, generate_series($from + 1, $to) n;
INSERT INTO manifest_reference (repository_id, manifest_digest, digest, is_manifest)
  SELECT repository_id, pg_temp.name('manifest', n / 10 - n / 500), pg_temp.name('blob', n), false
    FROM place, generate_series($from + 1, $to) n;
INSERT INTO manifest (repository_id, digest, media_type, size_bytes, key_id, sealed, artifact_type, subject_digest, created_at, renewed_at)
  SELECT repository_id, pg_temp.name('manifest', n), '$type', 700, key_id, decode(repeat('5a', 728), 'hex'), 'application/vnd.example+json',
         CASE WHEN n % 2 = 0 THEN pg_temp.name('manifest', n - 1) END, now() - interval '30 days', now() - interval '30 days'
    FROM place, generate_series($from / 10 - $from / 500 + 1, $to / 10 - $to / 500) n;
INSERT INTO tag (repository_id, name, manifest_digest, updated_at)
  SELECT repository_id, 't' || lpad(n::text, 7, '0'), pg_temp.name('manifest', n), now() - n * interval '1 second'
    FROM place, generate_series($from / 10 - $from / 500 + 1, $to / 10 - $to / 500) n;
INSERT INTO repository (repository_id, project_id, name, full_name)
  SELECT md5('repository' || n)::uuid, project_id, 'other/' || lpad(n::text, 7, '0'), 'main/models/other/' || lpad(n::text, 7, '0')
    FROM place, generate_series($from / 100 + 1, $to / 100) n;
INSERT INTO manifest (repository_id, digest, media_type, size_bytes, key_id, sealed, created_at, renewed_at)
  SELECT md5('repository' || n)::uuid, pg_temp.name('other', n), '$type', 700, key_id, decode(repeat('5a', 728), 'hex'),
         now() - interval '30 days', now() - interval '30 days' FROM place, generate_series($from / 100 + 1, $to / 100) n WHERE n % 2 = 0;
INSERT INTO tag (repository_id, name, manifest_digest, updated_at)
  SELECT md5('repository' || n)::uuid, 'v1', pg_temp.name('other', n), now() - interval '30 days'
    FROM generate_series($from / 100 + 1, $to / 100) n WHERE n % 2 = 0;
INSERT INTO manifest_use (repository_id, digest, used_at)
  SELECT repository_id, pg_temp.name('manifest', n), now() - interval '20 days'
    FROM place, generate_series($from / 10 - $from / 500 + 1, $to / 10 - $to / 500) n;
SET session_replication_role = origin;
"""


def sql(sijil, text):
    """As the database's administrator; one row a line."""
    words = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", parts.database_folder(sijil), "-U", "postgres", "-d", "sijil", "-f", "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout.split()


def fill(sijil, before, until):
    text = FILLER
    for name, value in (("from", before), ("to", until), ("repository", REPOSITORY), ("type", INDEX)):
        text = text.replace("$" + name, str(value))
    sql(sijil, text)
    sql(sijil, "VACUUM ANALYZE")
    sql(sijil, "CHECKPOINT")


def push_real(sijil):
    """Artifacts, and one of them with twenty referrers; answers its digest."""
    load(sijil, size=4096, count=REAL, clients=4, run="artifact")
    place = sijil.server.client(sijil.login).repository(REPOSITORY)
    subject = place.manifest(artifactType="application/vnd.example.subject")
    assert place.put_manifest("subject", subject).status == 201
    for number in range(20):
        referrer = place.manifest(subject={"mediaType": INDEX, "digest": sha256(subject), "size": len(subject)},
                                  annotations={"number": str(number)})
        assert place.put_manifest(sha256(referrer), referrer).status == 201
    return sha256(subject)


def cpu_of_server(sijil):
    """CPU seconds of gateway, keyd and PostgreSQL, those of ended sessions included."""
    ticks = 0
    for pid in sijil.pids() + sijil.database_pids():
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                ticks += sum(int(field) for field in file.read().rsplit(")", 1)[1].split()[11:15])
        except FileNotFoundError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def ask(sijil, folder, paths, requests, **more):
    path = os.path.join(folder, "paths")
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(line + "\n" for line in paths))
    return each(load(sijil, paths=path, requests=requests, count=1, size=16, run="ask", **more)["ask"])


def each(run):
    return {"p50 ms": run["p50_ms"], "cpu ms": 1000 * run["server_cpu_seconds"] / run["requests"]}


def collect(sijil, **more):
    """A dry run over the project: time and CPU time of the whole of it."""
    admin = sijil.server.client(sijil.server.admin)
    start, cpu = time.monotonic(), cpu_of_server(sijil)
    begun = admin.api("POST", "/collections", {"project": "main/models", "dry_run": True, **more})
    follow(admin, begun["id"], "?project=main/models")
    return {"p50 ms": 1000 * (time.monotonic() - start), "cpu ms": 1000 * (cpu_of_server(sijil) - cpu)}


def measure_level(sijil, folder, blobs, subject, quick):
    """Each request with one client, on a gateway that has just started."""
    times, base = (1 if quick else 4), f"/v2/{REPOSITORY}"
    tags = sql(sijil, f"SELECT t.name FROM tag t JOIN repository USING (repository_id) WHERE full_name = '{REPOSITORY}'"
                      f" AND t.name LIKE 'a%' ORDER BY updated_at LIMIT {REAL}")
    digests = sql(sijil, f"SELECT digest FROM blob WHERE size_bytes = 4096 ORDER BY created_at LIMIT {REAL}")
    manifests = [f"GET {base}/manifests/{tag}" for tag in tags]
    middle = f"{(blobs // 10 - blobs // 500) // 2:07}"
    found = {
        "manifest GET by tag, first time": ask(sijil, folder, manifests, REAL),
        "manifest GET by tag, known": ask(sijil, folder, manifests, 1000 * times),
        "blob HEAD": ask(sijil, folder, [f"HEAD {base}/blobs/{digest}" for digest in digests], 500 * times),
        "page of 100 tags": ask(sijil, folder, [f"GET {base}/tags/list?n=100&last=t{middle}"], 250 * times),
        "page of 100 repositories": ask(sijil, folder, [f"GET /v2/_catalog?n=100&last=main/models/other/{blobs // 200:07}"], 250 * times,
                                        scope="registry:catalog:*"),
        "20 referrers": ask(sijil, folder, [f"GET {base}/referrers/{subject}"], 250 * times),
        "push of 4 KiB with manifest and tag": each(load(sijil, size=4096, count=100 * times, run="artifact")["artifact"]),
        "collection, dry run": collect(sijil),
        "collection, dry run with rules": collect(sijil, rules={
            "retention": [{"repositories": "*", "tags": "*", "keep_last": 1000000}], "untagged_days": 7}),
    }
    for name in ("collection, dry run", "collection, dry run with rules"):
        found[name + ", for 1000 blobs"] = {unit: value * 1000 / blobs for unit, value in found[name].items()}
    return found


def table(levels):
    first, last = list(levels)[0], list(levels)[-1]
    lines = []
    for unit in ("p50 ms", "cpu ms"):
        lines.append(tables.line(unit + ", by blobs", *levels, "factor"))
        for name in levels[first]:
            values = [found[name][unit] for found in levels.values()]
            lines.append(tables.line(name, *[f"{value:.3f}" for value in values],
                                     f"{values[-1] / values[0]:.2f}" if values[0] > 0 else "-"))
        lines.append("")
    return "\n".join(lines)


def measure(folder, quick, tell):
    """{number of blobs: {what: time and CPU time}}; prints the table."""
    levels, before = {}, 0
    with Sijil() as sijil:
        subject = push_real(sijil)
        for blobs in (1000, 10000) if quick else (1000, 10000, 100000, 1000000):
            tell(f"{blobs} blobs")
            fill(sijil, before, blobs)
            sijil.server.stop()
            sijil.server.start()
            before, levels[str(blobs)] = blobs, measure_level(sijil, folder, blobs, subject, quick)
            tell(json.dumps(levels[str(blobs)]["manifest GET by tag, first time"]))
    print(table(levels))
    return levels
