-- Signed policy sets: appended, never changed or removed. Which one is in force is what sijil-keyd has pinned; a
-- newer one that is recorded here but not pinned yet is pinned by the next gateway that loads it.
CREATE TABLE policy_set (
    epoch     bigint PRIMARY KEY CHECK (epoch >= 1),
    digest    bytea NOT NULL CHECK (length(digest) = 32),                    -- what the payload says and is
    envelope  bytea NOT NULL CHECK (length(envelope) BETWEEN 1 AND 2097152), -- DSSE, as it was signed
    loaded_by text NOT NULL CHECK (length(loaded_by) BETWEEN 1 AND 255),
    loaded_at timestamptz NOT NULL DEFAULT now()
);

GRANT SELECT, INSERT ON policy_set TO sijil_app;
