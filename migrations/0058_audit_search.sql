-- The index of searches (docs/audit.md, "Searching"). It is written behind the log, by number, in transactions of whole batches: `indexed` says
-- how many entries it knows. Its rows are hints: each answer is compared with the leaves, so a wrong row shows nothing, and a missing row is
-- found by checks. It may be emptied at any time: with `indexed` 0 it is made again.
CREATE DOMAIN posting_list AS bytea CHECK (length(VALUE) BETWEEN 2 AND 512);

-- Which entries of a block of 4,096 have a term: their places in the block, two bytes each, ascending; or, if these would have 512 bytes or
-- more, one bit for each place. `key` is the first eight bytes of a hash of the term.
CREATE TABLE audit_post (
    key   bigint NOT NULL,
    block bigint NOT NULL,
    list  posting_list NOT NULL,
    PRIMARY KEY (key, block)
) WITH (fillfactor = 90);

-- The same for addresses, networks and countries of clients: `key` is of an HMAC under a key of the year. A row belongs to a subject, so it
-- goes with the subject's key.
ALTER TABLE audit_subject ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY UNIQUE;
CREATE TABLE audit_blind (
    key     bigint NOT NULL,
    block   bigint NOT NULL,
    subject bigint NOT NULL REFERENCES audit_subject (id) ON DELETE CASCADE,
    list    posting_list NOT NULL,
    PRIMARY KEY (key, block, subject)
) WITH (fillfactor = 90);
CREATE INDEX audit_blind_subject ON audit_blind (subject);

CREATE TABLE audit_search (
    only_row always_true PRIMARY KEY DEFAULT true,
    indexed  byte_count NOT NULL DEFAULT 0
) WITH (fillfactor = 20);
INSERT INTO audit_search DEFAULT VALUES;

GRANT SELECT, INSERT, UPDATE (list) ON audit_post, audit_blind TO sijil_app;
GRANT SELECT, UPDATE (indexed) ON audit_search TO sijil_app;
