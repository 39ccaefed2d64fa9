-- Training runs (docs/runs.md). The row says where a run is; training/states.def has the transitions. An envelope is appended, and never
-- changed or removed: it says what was signed.
CREATE TABLE run (
    run_id           uuid PRIMARY KEY,                       -- chosen by the requester
    number           bigint GENERATED ALWAYS AS IDENTITY UNIQUE, -- the order of lists
    project_id       uuid NOT NULL REFERENCES project,
    state            text NOT NULL CHECK (state IN ('requested', 'awaiting approval', 'cancelled', 'expired')),
    request          bytea NOT NULL CHECK (length(request) = 32), -- digest of the request's envelope
    requester        text NOT NULL CHECK (length(requester) BETWEEN 1 AND 79),
    approvals_wanted int NOT NULL CHECK (approvals_wanted BETWEEN 0 AND 8),
    pool             text NOT NULL CHECK (length(pool) BETWEEN 1 AND 63),
    requested_at     timestamptz NOT NULL DEFAULT now(),
    expires_at       timestamptz NOT NULL,
    ended_at         timestamptz,
    CHECK ((ended_at IS NOT NULL) = (state IN ('cancelled', 'expired')))
);
CREATE INDEX run_of_project ON run (project_id, number);
CREATE INDEX run_open ON run (project_id) WHERE ended_at IS NULL;
CREATE INDEX run_due ON run (expires_at) WHERE ended_at IS NULL;

CREATE TABLE run_envelope (
    run_id    uuid NOT NULL REFERENCES run,
    number    bigint GENERATED ALWAYS AS IDENTITY,
    kind      text NOT NULL CHECK (kind IN ('request', 'approval')),
    digest    bytea NOT NULL CHECK (length(digest) = 32),
    principal text NOT NULL CHECK (length(principal) BETWEEN 1 AND 79), -- of the person that signed
    envelope  text NOT NULL CHECK (length(envelope) BETWEEN 1 AND 131072),
    PRIMARY KEY (run_id, digest),
    UNIQUE (run_id, kind, principal)
);
GRANT SELECT, INSERT ON run, run_envelope TO sijil_app;
GRANT UPDATE (state, ended_at) ON run TO sijil_app;

-- A run that has ended stays as it ended, whoever writes.
CREATE FUNCTION run_stays_ended() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.ended_at IS NOT NULL THEN RAISE EXCEPTION 'run % has ended', OLD.run_id; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER run_stays_ended BEFORE UPDATE ON run FOR EACH ROW EXECUTE FUNCTION run_stays_ended();
