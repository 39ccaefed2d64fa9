"""Checks that must hold for the database, the log and the region after any failure."""
import base64
import hashlib
import os
import time

from plan import Bad

BROKEN_INVARIANTS = """
SELECT concat_ws('; ',
  CASE WHEN (SELECT size FROM audit_log) <> (SELECT count(*) FROM audit_entry)
         OR (SELECT size FROM audit_log) <> (SELECT max(seq) + 1 FROM audit_entry) THEN 'the log has a gap' END,
  CASE WHEN EXISTS (SELECT FROM manifest_reference r WHERE NOT is_manifest AND NOT EXISTS
        (SELECT FROM repository_blob b WHERE b.repository_id = r.repository_id AND b.digest = r.digest))
       THEN 'a manifest without its blob' END,
  CASE WHEN EXISTS (SELECT FROM manifest_reference r WHERE is_manifest AND NOT EXISTS
        (SELECT FROM manifest m WHERE m.repository_id = r.repository_id AND m.digest = r.digest))
       THEN 'a manifest without its child' END,
  CASE WHEN EXISTS (SELECT FROM manifest m WHERE NOT EXISTS
        (SELECT FROM manifest_reference r WHERE r.repository_id = m.repository_id AND r.manifest_digest = m.digest))
       THEN 'a manifest without its references' END,
  CASE WHEN EXISTS (SELECT FROM blob JOIN abandoned_object USING (blob_id)) THEN 'a blob that is abandoned' END,
  CASE WHEN EXISTS (SELECT FROM blob JOIN upload USING (blob_id)) THEN 'a blob that is still an upload' END,
  CASE WHEN EXISTS (SELECT FROM blob WHERE damaged_at IS NOT NULL) THEN 'a good blob is called damaged' END,
  CASE WHEN EXISTS (SELECT FROM blob b WHERE NOT EXISTS (SELECT FROM repository_blob r WHERE r.blob_id = b.blob_id)
                    AND b.digest <> ALL (string_to_array('%(deleted)s', ' ')))
       THEN 'a blob that no repository has, and nobody deleted' END)
"""


def end_uploads(world):
    """Ends unfinished uploads, because the number of open ones is limited."""
    world.machine.sql("WITH gone AS (DELETE FROM upload RETURNING blob_id, region_id)"
                      " INSERT INTO abandoned_object (blob_id, region_id) SELECT blob_id, region_id FROM gone")


def check_rows(world):
    broken = world.machine.sql(BROKEN_INVARIANTS % {"deleted": " ".join(world.deleted)})
    if broken:
        raise Bad(broken)


def tree_root(hashes):
    """RFC 6962, 2.1."""
    if len(hashes) == 1:
        return hashes[0]
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + tree_root(hashes[:split]) + tree_root(hashes[split:])).digest()


def the_log_verifies(world):
    note = world.admin.call("GET", "/api/v1/audit/checkpoint", scope="registry:admin:*").body.decode().split("\n")
    size, root = int(note[1]), base64.b64decode(note[2])
    text = world.machine.sql(f"SELECT string_agg(encode(leaf, 'hex'), ' ' ORDER BY seq) FROM audit_entry WHERE seq < {size}")
    leaves = [bytes.fromhex(leaf) for leaf in text.split(" ")]
    assert len(leaves) == size and tree_root([hashlib.sha256(b"\0" + leaf).digest() for leaf in leaves]) == root
    return size


def nothing_is_left_over(world):
    """After a restart, which cleans up at once: each file belongs to a blob, and each blob has its files."""
    machine = world.machine
    machine.sql("UPDATE upload SET expires_at = now()")
    machine.restart_gateway()
    until = time.monotonic() + 60
    while machine.sql("SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM abandoned_object)") != "0":
        assert time.monotonic() < until, "uploads and abandoned objects stay"
        time.sleep(0.1)
    blobs = set(machine.sql("SELECT string_agg(replace(blob_id::text, '-', ''), ' ') FROM blob").split())
    files = [file for folder, _, files in os.walk(machine.path("regions/main")) for file in files if not file.startswith(".") and file != "sijil-region"]  # the mark of the region
    owners = {file.split(".")[0] for file in files}
    assert owners == blobs, f"without a blob: {owners - blobs}; without a file: {blobs - owners}"
    return len(blobs)
