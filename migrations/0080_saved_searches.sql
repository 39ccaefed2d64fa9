-- Searches of the log that auditors have saved. Name and conditions may name persons, so both are sealed under the key of the auditor, and go with it.
CREATE TABLE audit_saved (
    saved_id uuid PRIMARY KEY,
    subject  bigint NOT NULL REFERENCES audit_subject (id) ON DELETE CASCADE,
    salt     bytea NOT NULL CHECK (length(salt) = 32),
    box      bytea NOT NULL CHECK (length(box) BETWEEN 41 AND 8192), -- nonce, ciphertext, tag
    saved_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX audit_saved_subject ON audit_saved (subject);
GRANT SELECT, INSERT, DELETE ON audit_saved TO sijil_app;
