-- A manifest may state a label of its content, as the annotation sijil.label (docs/policies.md). It is kept beside the sealed bytes, so that a run's
-- label can be computed without opening them.
ALTER TABLE manifest ADD COLUMN label text CHECK (length(label) BETWEEN 2 AND 16384);
ALTER TABLE run_checkpoint ADD COLUMN label text CHECK (length(label) BETWEEN 2 AND 16384);

-- It stays with the name of the repository, as a label that a run has brought does: one table has both.
ALTER TABLE run_label ALTER COLUMN run_id DROP NOT NULL;
ALTER TABLE run_label ADD COLUMN manifest text COLLATE "C" CHECK (length(manifest) BETWEEN 71 AND 135);  -- the first that brought it
ALTER TABLE run_label ADD CHECK ((run_id IS NULL) <> (manifest IS NULL));
