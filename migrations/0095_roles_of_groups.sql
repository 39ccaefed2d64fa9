-- Roles of groups are documents of the kind 11 (documents/format/kinds.def). The log has no event of these actions yet, so the index
-- audit_entry_document stays right.
CREATE OR REPLACE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 WHEN 'runner.approve' THEN 3 WHEN 'runner.revoke' THEN 3
                   WHEN 'rule.approve' THEN 4 WHEN 'rule.revoke' THEN 4 WHEN 'sink.approve' THEN 5 WHEN 'sink.revoke' THEN 5
                   WHEN 'detection.approve' THEN 6 WHEN 'detection.revoke' THEN 6 WHEN 'audit.erase' THEN 7 WHEN 'hold.add' THEN 8
                   WHEN 'hold.release' THEN 8 WHEN 'groups.approve' THEN 11 WHEN 'groups.revoke' THEN 11 END
$$;

-- The groups that the newest token of a person named, of those that a signed document gives roles. A row is written in the transaction of the event of
-- the token that was made for it, and gives nothing that no document gives to the group (docs/identity.md).
CREATE TABLE group_login (
    issuer    text NOT NULL CHECK (length(issuer) BETWEEN 1 AND 255),
    subject   text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
    groups    text[] NOT NULL CHECK (cardinality(groups) <= 64),
    issued_at timestamptz NOT NULL, -- of the issuer's token: an older one changes nothing
    until     timestamptz NOT NULL, -- a day after it was made at the registry; then the row is swept
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX group_login_groups ON group_login USING gin (groups);
CREATE INDEX group_login_until ON group_login (until);
GRANT SELECT, INSERT, UPDATE, DELETE ON group_login TO sijil_app;
