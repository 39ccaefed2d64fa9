-- What a policy has made of a repository stays with it when a later set lacks that policy, or labels less: its floor, with
-- its pin, as it was when the set was replaced (docs/policies.md). Rows are only added: a label never falls, and no
-- program can take one back. A row counts until a signed set declassifies it.
CREATE TABLE stored_label (
    repository_id uuid NOT NULL REFERENCES repository ON DELETE CASCADE,
    policy_id     text NOT NULL CHECK (length(policy_id) BETWEEN 2 AND 64),
    label         text NOT NULL CHECK (length(label) BETWEEN 2 AND 16384),  -- canonical JSON of a whole label
    stored_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (repository_id, policy_id, label)
);

GRANT SELECT, INSERT ON stored_label TO sijil_app;
