-- Upload sessions of a run end with its last open attempt: nobody can go on with them, and their bytes would lie there for a day. The next
-- round of the clean-up removes them. A higher writer_epoch refuses the save of a body that still moves.
CREATE FUNCTION run_attempt_ends_uploads() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE upload SET expires_at = least(expires_at, now()), writer_epoch = writer_epoch + 1
     WHERE issuer = '' AND subject = 'run:' || NEW.run_id
       AND NOT EXISTS (SELECT FROM run_attempt a WHERE a.run_id = NEW.run_id AND a.ended_at IS NULL);
    RETURN NULL;
END $$;
CREATE TRIGGER run_attempt_ends_uploads AFTER UPDATE OF ended_at ON run_attempt FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION run_attempt_ends_uploads();
CREATE INDEX upload_of_run ON upload (subject) WHERE issuer = '' AND subject LIKE 'run:%';
