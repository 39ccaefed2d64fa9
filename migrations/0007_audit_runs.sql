-- One append stands under a few keys many times: one row for each key of an append instead of one for each event and
-- key, and no second table of heads, because the newest row of a key knows its last number.
CREATE TABLE audit_run (
    key  bytea NOT NULL CHECK (length(key) = 16),     -- the first half of SHA-256 of the key's name
    last bigint NOT NULL,                             -- the last of seqs
    n    bigint NOT NULL,                             -- the last one is the n-th under this key
    seqs bigint[] NOT NULL,                           -- ascending; last - seqs[1] < 65536, so that a range of numbers
                                                      -- is a range of rows (audit_query_store.c)
    PRIMARY KEY (key, last) INCLUDE (n)
);
INSERT INTO audit_run SELECT key, seq, n, ARRAY[seq] FROM audit_key;
DROP TABLE audit_key, audit_key_head;

-- What stands where, one row for each: for people and for checks.
CREATE VIEW audit_key AS
    SELECT r.key, r.n - cardinality(r.seqs) + s.place AS n, s.seq
    FROM audit_run r CROSS JOIN LATERAL unnest(r.seqs) WITH ORDINALITY AS s (seq, place);

GRANT SELECT, INSERT ON audit_run TO sijil_app;
