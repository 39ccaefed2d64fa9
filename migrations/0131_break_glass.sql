-- Broken glasses are documents of the kind 10, and their reviews of the kind 13 (documents/format/kinds.def). The log has no event of these actions yet, so the
-- index audit_entry_document stays right.
CREATE OR REPLACE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 WHEN 'runner.approve' THEN 3 WHEN 'runner.revoke' THEN 3
                   WHEN 'rule.approve' THEN 4 WHEN 'rule.revoke' THEN 4 WHEN 'sink.approve' THEN 5 WHEN 'sink.revoke' THEN 5
                   WHEN 'detection.approve' THEN 6 WHEN 'detection.revoke' THEN 6 WHEN 'audit.erase' THEN 7 WHEN 'hold.add' THEN 8
                   WHEN 'hold.release' THEN 8 WHEN 'persons.approve' THEN 9 WHEN 'persons.revoke' THEN 9
                   WHEN 'breakglass.approve' THEN 10 WHEN 'breakglass.end' THEN 10
                   WHEN 'groups.approve' THEN 11 WHEN 'groups.revoke' THEN 11 WHEN 'scim.approve' THEN 12
                   WHEN 'scim.revoke' THEN 12 WHEN 'breakglass.review' THEN 13 END
$$;

-- Who has asked to break a glass (docs/break-glass.md). The signed document names the person by a hash, `principal`. A row counts only if issuer and subject have this
-- hash, so a row gives nothing to anybody. It goes when the document has ended, or the person is erased.
CREATE TABLE break_glass_holder (
    name      text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    principal text NOT NULL CHECK (length(principal) = 68),
    issuer    text NOT NULL CHECK (length(issuer) BETWEEN 1 AND 255),
    subject   text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
    until     timestamptz NOT NULL,
    PRIMARY KEY (name, principal)
);
CREATE INDEX break_glass_holder_until ON break_glass_holder (until);
GRANT SELECT, INSERT, UPDATE, DELETE ON break_glass_holder TO sijil_app;
