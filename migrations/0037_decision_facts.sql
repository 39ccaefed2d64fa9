-- What decisions were made on, in canonical JSON (docs/formats/audit-log.md section 18). An event commits to the facts of each pair by
-- their digest, so a row is written once, however often the same facts occur. The check keeps anybody from taking the place of facts
-- that are still to come.
CREATE TABLE audit_facts (
    digest bytea PRIMARY KEY,
    facts  bytea NOT NULL CHECK (length(facts) <= 32768),
    CONSTRAINT audit_facts_digest CHECK (digest = sha256(facts))
);
GRANT SELECT, INSERT ON audit_facts TO sijil_app;
