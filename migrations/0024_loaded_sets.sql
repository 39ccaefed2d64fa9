-- A policy set comes into force only with the event policy.load that names it (docs/policies.md). What that event says of a row
-- is computed here, so that a loader finds the event, and rows without one, without hashing every envelope again.
ALTER TABLE policy_set ADD COLUMN load_detail text GENERATED ALWAYS AS
    ('sha256:' || encode(sha256(envelope), 'hex') || ' ' || epoch::text || ' sha256:' || encode(digest, 'hex')) STORED;
CREATE INDEX audit_entry_policy_load ON audit_entry (seq) WHERE action = 'policy.load' AND outcome = 'allowed';
