-- The history of checkpoints is searched by time.
CREATE INDEX audit_checkpoint_signed ON audit_checkpoint (signed_at, id);
