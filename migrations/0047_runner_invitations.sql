-- Invitations of runners (docs/runner.md): who enrolled a runner, for which place, and the hash of the single-use code. The envelope is what counts:
-- a gateway checks its signature each time. A code without an invitation that an approver's key has signed gives nothing.
CREATE TABLE runner_invitation (
    runner          uuid PRIMARY KEY,                                       -- chosen by the person that invites
    scope           text NOT NULL CHECK (length(scope) <= 255),
    organisation_id uuid,                                                   -- NULL: of the registry
    code            bytea NOT NULL CHECK (length(code) = 32),               -- SHA-256 of the secret part
    envelope        bytea NOT NULL CHECK (length(envelope) BETWEEN 1 AND 16384),
    invited_by      text NOT NULL CHECK (length(invited_by) BETWEEN 1 AND 255),
    invited_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    used_at         timestamptz,
    name            text CHECK (length(name) = 43),                         -- of the key that used it
    digest          bytea CHECK (length(digest) = 32),                      -- of the runner's document
    CONSTRAINT runner_invitation_used CHECK ((used_at IS NULL) = (name IS NULL) AND (used_at IS NULL) = (digest IS NULL))
);
CREATE INDEX runner_invitation_of_organisation ON runner_invitation (organisation_id);
GRANT SELECT, INSERT, DELETE ON runner_invitation TO sijil_app;
GRANT UPDATE (used_at, name, digest) ON runner_invitation TO sijil_app;
-- A code is used once, whoever writes.
CREATE FUNCTION runner_invitation_stays_used() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.used_at IS NOT NULL THEN RAISE EXCEPTION 'the code of the runner % was used', OLD.runner; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER runner_invitation_stays_used BEFORE UPDATE ON runner_invitation FOR EACH ROW EXECUTE FUNCTION runner_invitation_stays_used();

-- Invitations of an organisation end with it, as its drafts do.
CREATE OR REPLACE FUNCTION bury_organisation(uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DELETE FROM document_draft WHERE organisation_id = $1;
    DELETE FROM runner_invitation WHERE organisation_id = $1;
    SELECT bury_project(project_id) FROM project WHERE organisation_id = $1 AND deleted_at IS NULL;
    UPDATE organisation SET deleted_name = name, name = '#' || organisation_id, deleted_at = now()
     WHERE organisation_id = $1 AND deleted_at IS NULL
$$;

-- A run that succeeded stays so. If the runner that signed its result was withdrawn from an earlier time on, this says it (docs/runs.md).
CREATE TABLE run_doubt (
    run_id   uuid NOT NULL REFERENCES run,
    key      text NOT NULL CHECK (length(key) = 43),
    runner   uuid NOT NULL,
    since    timestamptz NOT NULL,
    reason   text NOT NULL CHECK (length(reason) BETWEEN 1 AND 256),
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, key)
);
GRANT SELECT, INSERT ON run_doubt TO sijil_app;
CREATE INDEX run_attempt_finished ON run_attempt (key, ended_at) WHERE outcome = 'finished';
