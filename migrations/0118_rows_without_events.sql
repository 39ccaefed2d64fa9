-- What a thief of the gateways' role can't write, or can't use (docs/attacks-on-runs.md).
--
-- A run has one request: the one whose digest its row has, since both were written. Another row would be taken for what was asked for.
CREATE FUNCTION run_has_one_request() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM run WHERE run_id = NEW.run_id AND request = NEW.digest) THEN
        RAISE EXCEPTION 'run % has another request', NEW.run_id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER run_has_one_request BEFORE INSERT ON run_envelope FOR EACH ROW WHEN (NEW.kind = 'request') EXECUTE FUNCTION run_has_one_request();

-- The session of a runner tells it from a copy of its key. So a row has a hash of it: the first 16 bytes of its SHA-256.
ALTER TABLE run_session DISABLE TRIGGER run_session_stays_suspended;
UPDATE run_session SET session = substring(sha256(session) FOR 16);
ALTER TABLE run_session ENABLE TRIGGER run_session_stays_suspended;
ALTER TABLE run_attempt DISABLE TRIGGER run_attempt_stays_ended;
UPDATE run_attempt SET session = substring(sha256(session) FOR 16);
ALTER TABLE run_attempt ENABLE TRIGGER run_attempt_stays_ended;

-- The generation of a runner's journal rises, and each generation has one session: else an older copy of the runner's disk would be taken for the runner.
CREATE FUNCTION run_session_only_rises() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the runner key % has a session of generation % already', OLD.key, OLD.generation;
END $$;
CREATE TRIGGER run_session_only_rises BEFORE UPDATE ON run_session FOR EACH ROW
    WHEN (NEW.generation < OLD.generation OR (NEW.generation = OLD.generation AND NEW.session <> OLD.session))
    EXECUTE FUNCTION run_session_only_rises();

-- A key is suspended with its event, in one transaction. Whoever invents the event breaks the log, which sijil-keyd and each auditor see.
CREATE INDEX audit_entry_suspend ON audit_entry (seq) WHERE action = 'runner.suspend' AND outcome = 'allowed';
CREATE FUNCTION run_session_is_suspended_by_event() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM audit_entry WHERE action = 'runner.suspend' AND outcome = 'allowed' AND seq < (SELECT size FROM audit_log)
                   AND position(convert_to(' ' || NEW.key || '"', 'UTF8') IN leaf) > 0) THEN
        RAISE EXCEPTION 'no event says that the runner key % is suspended', NEW.key;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER run_session_is_suspended_by_event AFTER INSERT OR UPDATE ON run_session DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.suspended_at IS NOT NULL) EXECUTE FUNCTION run_session_is_suspended_by_event();

-- An event is one below the size of the log. So the size does not fall for the role of the gateways: else an event far ahead could be invented, believed, and
-- taken back in one transaction, and no check of the log would look there.
CREATE FUNCTION audit_log_only_grows() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF is_owners_hand(TG_RELID) THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'the log does not become shorter' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_log_only_grows BEFORE UPDATE ON audit_log FOR EACH ROW WHEN (NEW.size < OLD.size) EXECUTE FUNCTION audit_log_only_grows();
