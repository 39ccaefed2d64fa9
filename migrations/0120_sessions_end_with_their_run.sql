-- An upload session of a run ends with the run, whoever began it: an admission uploads envelopes after the last attempt has ended, and a gateway that
-- is killed meanwhile can't end its session. Before, its bytes lay there for a day. The next round of the clean-up removes them. A higher
-- writer_epoch refuses the save of a body that still moves.
CREATE FUNCTION run_ends_uploads() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE upload SET expires_at = least(expires_at, now()), writer_epoch = writer_epoch + 1
     WHERE issuer = '' AND subject = 'run:' || NEW.run_id AND subject LIKE 'run:%'; -- the latter finds the index
    RETURN NULL;
END $$;
CREATE TRIGGER run_ends_uploads AFTER UPDATE OF ended_at ON run FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION run_ends_uploads();

-- A session whose request was decided before the end of its run, and recorded after it, ends at once. Ends of runs and begins of sessions are in
-- transactions of the log, which come one after the other: so one of the two functions sees the other's row.
CREATE FUNCTION upload_of_ended_run_ends() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM run WHERE run_id = substr(NEW.subject, 5)::uuid AND ended_at IS NOT NULL) THEN
        NEW.expires_at := now();
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER upload_of_ended_run_ends BEFORE INSERT ON upload FOR EACH ROW
    WHEN (NEW.issuer = '' AND NEW.subject ~ '^run:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$') EXECUTE FUNCTION upload_of_ended_run_ends();
