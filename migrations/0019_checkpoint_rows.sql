-- Anybody who may insert can take the place of a size that has no checkpoint yet. A row is worth what its note is worth, so
-- several may stand for one size, and the true one always finds room. Nothing is decided by these rows.
ALTER TABLE audit_checkpoint DROP CONSTRAINT audit_checkpoint_pkey;
ALTER TABLE audit_checkpoint ADD CONSTRAINT audit_checkpoint_note_size CHECK (length(note) <= 2048) NOT VALID;
ALTER TABLE audit_checkpoint ADD PRIMARY KEY (size, note);
