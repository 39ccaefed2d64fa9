-- Proofs of a client's key that were used (RFC 9449, docs/identity.md): the SHA-256 of the key's thumbprint and jti. All gateways write here, and a row can only refuse a
-- proof. It stays for longer than any gateway accepts the proof; then it is swept.
CREATE TABLE spent_proof (
    digest     bytea PRIMARY KEY CHECK (length(digest) = 32),
    expires_at timestamptz NOT NULL
);
CREATE INDEX spent_proof_expires ON spent_proof (expires_at);
GRANT SELECT, INSERT, DELETE ON spent_proof TO sijil_app;
CREATE TRIGGER spent_proof_stays BEFORE DELETE ON spent_proof FOR EACH ROW EXECUTE FUNCTION spent_token_stays();
