-- Whoever goes through the checkpoints does so by a number that the table itself gives: a note may be any text, as long as its writer
-- likes, and none may stand in the way of the rows behind it. No writer chooses the number, so none can take that of a true row.
ALTER TABLE audit_checkpoint ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX audit_checkpoint_id ON audit_checkpoint (id);
REVOKE INSERT ON audit_checkpoint FROM sijil_app;
GRANT INSERT (size, root, note) ON audit_checkpoint TO sijil_app;
ALTER TABLE audit_checkpoint DROP CONSTRAINT audit_checkpoint_note_size;
ALTER TABLE audit_checkpoint ADD CONSTRAINT audit_checkpoint_note_size CHECK (octet_length(note) <= 2048) NOT VALID;
