-- Trust rules are documents of the kind 4 (documents/format/kinds.def). The log has no event of these actions yet, so the index
-- audit_entry_document stays right.
CREATE OR REPLACE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 WHEN 'runner.approve' THEN 3 WHEN 'runner.revoke' THEN 3
                   WHEN 'rule.approve' THEN 4 WHEN 'rule.revoke' THEN 4 END
$$;

-- Tokens of CI systems that a rule lets be used once: the SHA-256 of the issuer, a line feed, and jti. A row is written in the transaction of the
-- event of the token that was made, so it counts for all gateways (docs/ci.md).
CREATE TABLE spent_token (
    digest     bytea PRIMARY KEY CHECK (length(digest) = 32),
    expires_at timestamptz NOT NULL -- some minutes after the token's own end; then the row is swept
);
CREATE INDEX spent_token_expires ON spent_token (expires_at);
GRANT SELECT, INSERT, DELETE ON spent_token TO sijil_app;
