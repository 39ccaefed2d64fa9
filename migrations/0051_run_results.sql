-- Results of training runs and their admission (docs/runs.md). A result's manifests are held back until the run is admitted: then the server itself
-- makes them manifests of their repositories. They are sealed as manifests are.
CREATE TABLE held_manifest (
    run_id        uuid NOT NULL REFERENCES run,
    attempt       int NOT NULL CHECK (attempt BETWEEN 1 AND 100),
    node          int NOT NULL CHECK (node BETWEEN 0 AND 255),
    name          text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),  -- of the subject in the result; "log", "metrics"
    repository_id uuid NOT NULL REFERENCES repository ON DELETE CASCADE,
    digest        text COLLATE "C" NOT NULL CHECK (length(digest) = 71),
    media_type    text NOT NULL CHECK (length(media_type) BETWEEN 1 AND 255),
    size_bytes    integer NOT NULL CHECK (size_bytes BETWEEN 2 AND 4194304),
    key_id        uuid NOT NULL REFERENCES project_key,
    sealed        bytea NOT NULL,
    held_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, attempt, node, name)
);
ALTER TABLE held_manifest ALTER COLUMN sealed SET STORAGE EXTERNAL;  -- ciphertext does not compress
CREATE INDEX held_manifest_repository ON held_manifest (repository_id);

-- The blobs of held manifests. They are not collected while the run waits for its admission, and for 30 days after another end.
CREATE TABLE held_blob (
    repository_id uuid NOT NULL REFERENCES repository ON DELETE CASCADE,
    digest        text COLLATE "C" NOT NULL,
    run_id        uuid NOT NULL REFERENCES run,
    PRIMARY KEY (repository_id, digest, run_id)
);
GRANT SELECT, INSERT ON held_manifest, held_blob TO sijil_app;

-- What is held counts like the envelopes (docs/quotas.md).
CREATE FUNCTION held_manifests_were_added() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE project_runs p SET bytes = p.bytes + a.bytes
      FROM (SELECT r.project_id, sum(octet_length(m.sealed)) AS bytes FROM made m JOIN run r USING (run_id) GROUP BY r.project_id) a
     WHERE p.project_id = a.project_id;
    RETURN NULL;
END $$;
CREATE TRIGGER held_manifests_were_added AFTER INSERT ON held_manifest REFERENCING NEW TABLE AS made FOR EACH STATEMENT
    EXECUTE FUNCTION held_manifests_were_added();

-- From which content a run was made, and what was made of it: dataset -> run -> artifact. Written with the admission.
CREATE TABLE run_lineage (
    run_id     uuid NOT NULL REFERENCES run,
    role       text NOT NULL CHECK (role IN ('code', 'image', 'resume', 'input', 'output')),
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),      -- of the input or output; else the role
    repository text NOT NULL CHECK (length(repository) BETWEEN 5 AND 255), -- as it was named then
    digest     text COLLATE "C" NOT NULL CHECK (length(digest) = 71),    -- of its manifest
    PRIMARY KEY (run_id, role, name)
);
CREATE INDEX run_lineage_of ON run_lineage (digest);
GRANT SELECT, INSERT ON run_lineage TO sijil_app;

-- sijil-keyd signs one admission for an order, and names its policy set in it. After a crash the very same admission is signed again, also if the
-- policies changed meanwhile: so the set is kept before keyd is asked.
CREATE TABLE run_admission (
    run_id   uuid PRIMARY KEY REFERENCES run,
    epoch    bigint NOT NULL CHECK (epoch >= 1),
    policies bytea NOT NULL CHECK (length(policies) = 32) -- digest of the set
);
GRANT SELECT, INSERT ON run_admission TO sijil_app;

ALTER TABLE run ADD COLUMN tries int NOT NULL DEFAULT 0; -- of the admission; each one waits longer than the one before
GRANT UPDATE (tries) ON run TO sijil_app;
CREATE INDEX run_finishing ON run (number) WHERE state = 'finishing';
CREATE FUNCTION run_tells_of_its_end() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM pg_notify('sijil_run_result', '');
    RETURN NULL;
END $$;
CREATE TRIGGER run_tells_when_finishing AFTER UPDATE OF state ON run FOR EACH ROW
    WHEN (NEW.state = 'finishing' AND OLD.state <> NEW.state) EXECUTE FUNCTION run_tells_of_its_end();
