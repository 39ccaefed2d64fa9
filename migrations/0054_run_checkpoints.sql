-- Checkpoints of training runs (docs/runs.md, "Checkpoints"). The manifest is sealed as manifests are, and nobody can pull it: only a run whose order
-- names it gets it. A newer checkpoint of the run takes the place of older ones, so rows go; each one's digest is in its event.
CREATE TABLE run_checkpoint (
    run_id        uuid NOT NULL REFERENCES run,
    digest        text COLLATE "C" NOT NULL CHECK (length(digest) = 71), -- of its manifest
    attempt       int NOT NULL CHECK (attempt BETWEEN 1 AND 100),        -- the newest that has brought it
    key           text NOT NULL CHECK (length(key) = 43),                -- thumbprint of the key of that attempt's runner
    repository_id uuid NOT NULL REFERENCES repository ON DELETE CASCADE, -- of the first output: its label is the run's
    content_bytes bigint NOT NULL CHECK (content_bytes >= 0),            -- of its files
    size_bytes    integer NOT NULL CHECK (size_bytes BETWEEN 2 AND 4194304),
    key_id        uuid NOT NULL REFERENCES project_key,
    sealed        bytea NOT NULL,
    kept_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, digest)
);
ALTER TABLE run_checkpoint ALTER COLUMN sealed SET STORAGE EXTERNAL; -- ciphertext does not compress
CREATE INDEX run_checkpoint_of ON run_checkpoint (repository_id, digest);
CREATE INDEX run_checkpoint_of_key ON run_checkpoint (key);

-- Its blobs. They are not collected as long as the row is there.
CREATE TABLE run_checkpoint_blob (
    run_id        uuid NOT NULL,
    checkpoint    text COLLATE "C" NOT NULL,
    digest        text COLLATE "C" NOT NULL,
    repository_id uuid NOT NULL REFERENCES repository ON DELETE CASCADE,
    PRIMARY KEY (run_id, checkpoint, digest),
    FOREIGN KEY (run_id, checkpoint) REFERENCES run_checkpoint ON DELETE CASCADE
);
CREATE INDEX run_checkpoint_blob_of ON run_checkpoint_blob (repository_id, digest);
GRANT SELECT, INSERT, DELETE ON run_checkpoint TO sijil_app;
GRANT UPDATE (attempt, key, kept_at) ON run_checkpoint TO sijil_app;
GRANT SELECT, INSERT ON run_checkpoint_blob TO sijil_app;

-- The checkpoint that a run is to continue from. As long as the run is open, the checkpoint stays.
CREATE TABLE run_resume (
    run_id     uuid PRIMARY KEY REFERENCES run,
    repository text NOT NULL CHECK (length(repository) BETWEEN 5 AND 255), -- as the request names it
    digest     text COLLATE "C" NOT NULL CHECK (length(digest) = 71)
);
CREATE INDEX run_resume_of ON run_resume (digest);
GRANT SELECT, INSERT ON run_resume TO sijil_app;

-- The blobs of a checkpoint that is gone do not count in the limit of an attempt any more.
GRANT DELETE ON run_upload TO sijil_app;

-- What is kept counts like the envelopes (docs/quotas.md), and not any more once it is gone.
CREATE FUNCTION run_checkpoints_were_added() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE project_runs p SET bytes = p.bytes + a.bytes
      FROM (SELECT r.project_id, sum(octet_length(m.sealed)) AS bytes FROM made m JOIN run r USING (run_id) GROUP BY r.project_id) a
     WHERE p.project_id = a.project_id;
    RETURN NULL;
END $$;
CREATE TRIGGER run_checkpoints_were_added AFTER INSERT ON run_checkpoint REFERENCING NEW TABLE AS made FOR EACH STATEMENT
    EXECUTE FUNCTION run_checkpoints_were_added();
CREATE FUNCTION run_checkpoints_were_removed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE project_runs p SET bytes = p.bytes - a.bytes
      FROM (SELECT r.project_id, sum(octet_length(g.sealed)) AS bytes FROM gone g JOIN run r USING (run_id) GROUP BY r.project_id) a
     WHERE p.project_id = a.project_id;
    RETURN NULL;
END $$;
CREATE TRIGGER run_checkpoints_were_removed AFTER DELETE ON run_checkpoint REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION run_checkpoints_were_removed();
