-- A search reads all lists of a term (docs/decisions/0150-a-term-s-lists-lie-together.md). The rows of the index of searches lie in the order in which the blocks
-- were written, so the lists of a term are on as many pages as it has blocks. With the lists in the key's index they are on a few pages that follow each other.
ALTER TABLE audit_post
    DROP CONSTRAINT audit_post_pkey,
    ADD CONSTRAINT audit_post_pkey PRIMARY KEY (key, block) INCLUDE (list);
ALTER TABLE audit_blind
    DROP CONSTRAINT audit_blind_pkey,
    ADD CONSTRAINT audit_blind_pkey PRIMARY KEY (key, block, subject) INCLUDE (list);
-- Rows whose page no VACUUM has seen since it changed are read from the table, too.
ALTER TABLE audit_post SET (autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE audit_blind SET (autovacuum_vacuum_insert_scale_factor = 0.05);
