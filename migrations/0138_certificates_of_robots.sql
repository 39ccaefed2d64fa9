-- A robot may log in by a certificate in place of a secret (RFC 8705, docs/identity.md). secret_hash is then the complement of the SHA-256 of this text,
-- which no secret has: only the TLS layer says it. The text is kept for persons who want to know which robots have one.
ALTER TABLE robot ADD COLUMN certificate text CHECK (certificate ~ '^(x5t#S256:[A-Za-z0-9_-]{43}|(dns|uri):[!-~]{1,200})$');
GRANT UPDATE (certificate) ON robot TO sijil_app;
