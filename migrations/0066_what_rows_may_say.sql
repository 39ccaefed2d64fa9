-- A runner that was kept for a run of several nodes in vain (docs/runs.md, "Several nodes"): it gets one younger run before it is kept for another one. The row
-- stays until the runner has a lease, also if the run is cancelled: else a trainer could keep a shared pool from everybody by one large run after the other.
CREATE TABLE run_kept (
    key    text PRIMARY KEY CHECK (length(key) = 43),
    run_id uuid NOT NULL REFERENCES run -- the last run that it was kept for
);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_kept TO sijil_app;

-- Gateways look at the leases whose bodies move, and at no list of those that ended.
DROP INDEX run_attempt_ended;

-- A checkpoint is sealed for the run that keeps it, so that its row can't be copied to another run. Those from before opened under any run.
DELETE FROM run_checkpoint;

-- What a run continues from is written with its request, in one transaction, and never later: else the withdrawal of a runner could be given effect on honest
-- runs that never had anything of it. The time of the request can't be changed, and is that of its transaction.
CREATE FUNCTION run_resume_comes_with_its_request() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM run WHERE run_id = NEW.run_id AND requested_at = now()) THEN
        RAISE EXCEPTION 'run % was asked for without this checkpoint', NEW.run_id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER run_resume_comes_with_its_request BEFORE INSERT ON run_resume FOR EACH ROW EXECUTE FUNCTION run_resume_comes_with_its_request();

-- A token of a CI system that was used stays used until it has expired, also for whoever has the gateways' role.
CREATE FUNCTION spent_token_stays() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.expires_at > now() THEN RAISE EXCEPTION 'a spent token is kept until %', OLD.expires_at; END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER spent_token_stays BEFORE DELETE ON spent_token FOR EACH ROW EXECUTE FUNCTION spent_token_stays();

-- Nor does an ended run get another attempt: the key in its row would say that a withdrawn runner has made the run's checkpoints or results.
CREATE FUNCTION run_attempt_is_of_an_open_run() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM run WHERE run_id = NEW.run_id AND ended_at IS NULL) THEN
        RAISE EXCEPTION 'run % has ended, and gets no attempt', NEW.run_id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER run_attempt_is_of_an_open_run BEFORE INSERT ON run_attempt FOR EACH ROW EXECUTE FUNCTION run_attempt_is_of_an_open_run();
