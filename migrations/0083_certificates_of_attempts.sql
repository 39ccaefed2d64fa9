-- The key of an attempt, certified by its runner (docs/formats/run.md): kept when its node is ready to start, and never replaced.
ALTER TABLE run_attempt ADD COLUMN certificate text CHECK (length(certificate) BETWEEN 1 AND 4096); -- the envelope
GRANT UPDATE (certificate) ON run_attempt TO sijil_app;
CREATE FUNCTION run_attempt_keeps_its_key() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'run %: attempt % of node % has a certified key already', OLD.run_id, OLD.attempt, OLD.node;
END $$;
CREATE TRIGGER run_attempt_keeps_its_key BEFORE UPDATE OF certificate ON run_attempt FOR EACH ROW
    WHEN (OLD.certificate IS NOT NULL AND NEW.certificate IS DISTINCT FROM OLD.certificate) EXECUTE FUNCTION run_attempt_keeps_its_key();
