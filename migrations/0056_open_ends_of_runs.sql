-- Collection asks for each manifest without a tag whether an admitted run has made it (docs/garbage-collection.md).
CREATE INDEX held_manifest_of ON held_manifest (repository_id, digest);
DROP INDEX held_manifest_repository;

-- 'return': a runner that has a lease and can't run it now. Another runner gets the run at once, and this one not before a lost attempt's time.
ALTER TABLE run_envelope
    DROP CONSTRAINT run_envelope_kind_check,
    ADD CONSTRAINT run_envelope_kind_check
        CHECK (kind IN ('request', 'approval', 'order', 'refusal', 'return', 'result', 'admission', 'node result', 'late'));
ALTER TABLE run_attempt
    DROP CONSTRAINT run_attempt_outcome_check,
    ADD CONSTRAINT run_attempt_outcome_check CHECK (outcome IN ('lost', 'finished', 'refused', 'returned', 'stopped'));

-- Logs of runs that go on count in the quota of bytes (docs/quotas.md): with all that the order allows while their attempt goes on, then with what
-- they have, until they are removed.
ALTER TABLE run_log ADD COLUMN reserved_bytes bigint NOT NULL DEFAULT 0 CHECK (reserved_bytes >= 0);
UPDATE run_log l SET reserved_bytes = CASE
    WHEN l.gone_at IS NOT NULL THEN 0
    WHEN EXISTS (SELECT FROM run_attempt a WHERE a.run_id = l.run_id AND a.attempt = l.attempt AND a.node = l.node AND a.ended_at IS NULL) THEN l.bytes_max
    ELSE l.bytes END;
UPDATE project_quota q SET bytes_used = q.bytes_used + l.bytes
  FROM (SELECT project_id, sum(reserved_bytes) AS bytes FROM run_log GROUP BY project_id) l WHERE q.project_id = l.project_id AND q.uncounted IS NULL;
GRANT UPDATE (reserved_bytes) ON run_log TO sijil_app;
CREATE INDEX run_log_counted ON run_log (project_id) INCLUDE (reserved_bytes, bytes) WHERE gone_at IS NULL;

-- An ended attempt stays ended (run_attempt_stays_ended), so each log is settled once. Attempts end under the log's lock, as all changes of quotas.
CREATE FUNCTION run_log_settles() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    project uuid;
    unused  bigint;
BEGIN
    SELECT l.project_id, l.reserved_bytes - l.bytes INTO project, unused FROM run_log l
     WHERE l.run_id = NEW.run_id AND l.attempt = NEW.attempt AND l.node = NEW.node AND l.gone_at IS NULL FOR UPDATE;
    IF FOUND THEN
        UPDATE run_log l SET reserved_bytes = l.bytes WHERE l.run_id = NEW.run_id AND l.attempt = NEW.attempt AND l.node = NEW.node;
        UPDATE project_quota q SET bytes_used = q.bytes_used - unused WHERE q.project_id = project;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER run_log_settles AFTER UPDATE OF ended_at ON run_attempt FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION run_log_settles();
