-- What a training run uploads is held: no request finds the blob in the repository until somebody who has the bytes pushes it, or the run is
-- admitted (docs/runs.md, "Results"). A blob that a run and a person have uploaded is both, so that a person who deletes it takes nothing from the run.
ALTER TABLE repository_blob
    ADD COLUMN is_pushed boolean NOT NULL DEFAULT true,  -- requests find it
    ADD COLUMN is_held   boolean NOT NULL DEFAULT false; -- a run has uploaded it
GRANT UPDATE (is_pushed, is_held) ON repository_blob TO sijil_app;

-- From before: what runs have uploaded, and no manifest of the repository needs. Whoever has pushed the same bytes pushes them again.
UPDATE repository_blob b
   SET is_held = true, is_pushed = EXISTS (SELECT FROM manifest_reference m
       WHERE m.repository_id = b.repository_id AND m.digest = b.digest AND NOT m.is_manifest)
 WHERE EXISTS (SELECT FROM repository r JOIN run_upload u ON u.repository = r.full_name AND u.digest = b.digest
               WHERE r.repository_id = b.repository_id)
    OR EXISTS (SELECT FROM held_blob h WHERE h.repository_id = b.repository_id AND h.digest = b.digest)
    OR EXISTS (SELECT FROM run_checkpoint_blob c WHERE c.repository_id = b.repository_id AND c.digest = b.digest);
