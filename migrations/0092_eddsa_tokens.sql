-- Issuers may sign their tokens with Ed25519 (RFC 8037).
ALTER TABLE trusted_issuer
    DROP CONSTRAINT trusted_issuer_algorithms_check,
    ADD CONSTRAINT trusted_issuer_algorithms_check CHECK (
        algorithms <@ ARRAY['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'] AND cardinality(algorithms) > 0);
