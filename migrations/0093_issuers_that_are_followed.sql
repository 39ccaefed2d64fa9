-- The keys of an issuer that is followed are fetched from it (docs/identity.md). All gateways share what was fetched, and who fetches next.
ALTER TABLE trusted_issuer
    ADD COLUMN follows  boolean NOT NULL DEFAULT false,
    ADD COLUMN keys_url text CHECK (keys_url ~ '^https://.' AND length(keys_url) <= 511),  -- NULL: its metadata names it
    ADD CONSTRAINT keys_are_followed CHECK (follows OR (keys_url IS NULL AND jwks <> ''));
GRANT UPDATE (follows, keys_url) ON trusted_issuer TO sijil_app;

CREATE TABLE issuer_fetch (
    issuer_id    uuid PRIMARY KEY REFERENCES trusted_issuer ON DELETE CASCADE,
    due_at       timestamptz NOT NULL DEFAULT now(),
    attempted_at timestamptz,              -- the begin of the newest attempt
    ended_at     timestamptz,              -- its end
    confirmed_at timestamptz,              -- when the issuer last published the keys that count
    failures     bigint NOT NULL DEFAULT 0 CHECK (failures >= 0),  -- attempts without success since the last one with success
    problem      text CHECK (length(problem) <= 400),              -- of the newest attempt; NULL: none
    report       text CHECK (length(report) <= 32768)              -- JSON: what the newest attempt saw
);
CREATE INDEX issuer_fetch_due ON issuer_fetch (due_at);
GRANT SELECT, INSERT, DELETE ON issuer_fetch TO sijil_app;
GRANT UPDATE (due_at, attempted_at, ended_at, confirmed_at, failures, problem, report) ON issuer_fetch TO sijil_app;
