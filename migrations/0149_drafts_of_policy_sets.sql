-- Policy sets that wait for signatures (docs/policies.md). A row gives nothing: a gateway verifies each signature before it shows and counts it, and sijil-keyd
-- counts those of the set that the log names.
CREATE TABLE policy_draft (
    name       text PRIMARY KEY CHECK (name ~ '^[0-9a-f]{16}$'),
    payload    bytea NOT NULL CHECK (length(payload) BETWEEN 1 AND 1048576),
    envelope   bytea NOT NULL DEFAULT '' CHECK (length(envelope) <= 2097152),
    drafted_by text NOT NULL CHECK (length(drafted_by) BETWEEN 1 AND 255),
    expires_at timestamptz NOT NULL
);
GRANT SELECT, INSERT, DELETE ON policy_draft TO sijil_app;
GRANT UPDATE (envelope) ON policy_draft TO sijil_app;
