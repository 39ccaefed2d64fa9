-- A secret that was replaced without a grace period was stolen, or may have been: what its tokens asked for counts no more, and a training run that they
-- asked for ends (docs/runs.md, "What can end an order"). A later rotation with a grace period takes nothing of that back.
ALTER TABLE robot ADD COLUMN asked_since timestamptz; -- requests of tokens before this time count no longer; NULL: all do
UPDATE robot SET asked_since = previous_until WHERE previous_hash IS NULL AND previous_until IS NOT NULL;
GRANT UPDATE (asked_since) ON robot TO sijil_app;

CREATE FUNCTION keep_asked_since() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.asked_since IS NULL OR NEW.asked_since >= OLD.asked_since OR is_owners_hand(TG_RELID) THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'a request that counts no longer stays so' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER robot_asked_since_rises BEFORE UPDATE OF asked_since ON robot FOR EACH ROW EXECUTE FUNCTION keep_asked_since();
