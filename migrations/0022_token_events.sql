-- What explains the tokens that keyd has signed is counted by GET /api/v1/keys (docs/keys.md): among millions of events these
-- must be found without reading the others.
CREATE INDEX audit_entry_mint ON audit_entry (seq) WHERE action = 'token.mint' AND outcome = 'allowed';
