-- The label that the outputs of a training run carry (docs/runs.md): the join of the labels of all that the run reads, at its order. It stays
-- with the name of the output's repository, which need not exist yet. Rows are only added: a label never falls. A row counts until a signed
-- set declassifies "sijil-run" there.
CREATE TABLE run_label (
    project_id uuid NOT NULL REFERENCES project,
    repository text NOT NULL CHECK (length(repository) BETWEEN 1 AND 255),  -- its name below the project
    digest     bytea NOT NULL CHECK (length(digest) = 32),                  -- SHA-256 of the label
    label      text NOT NULL CHECK (length(label) BETWEEN 2 AND 16384),     -- canonical JSON of a whole label
    run_id     uuid NOT NULL REFERENCES run,                                -- the first run that brought it
    stored_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project_id, repository, digest)
);
CREATE INDEX run_label_of ON run_label (digest);
GRANT SELECT, INSERT ON run_label TO sijil_app;
