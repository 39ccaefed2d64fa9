-- What tells gateways to look again only rises for their role: else a change that was answered need never come into force.

-- The authorization epoch is raised by these functions and by nothing else.
ALTER FUNCTION raise_authorization_epoch() SECURITY DEFINER SET search_path FROM CURRENT;
ALTER FUNCTION raise_authorization_epoch(uuid, boolean) SECURITY DEFINER SET search_path FROM CURRENT;
REVOKE UPDATE (epoch) ON authorization_epoch FROM sijil_app;
REVOKE INSERT, UPDATE (epoch, names_epoch, whole_epoch) ON authorization_change FROM sijil_app;

-- The number of the last event that altered what other gateways hold in memory (0006).
CREATE FUNCTION keep_altered() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF is_owners_hand(TG_RELID) THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'the last alteration does not go back, nor ahead of the log' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER altered_rises BEFORE UPDATE ON audit_log FOR EACH ROW
    WHEN (NEW.altered <> OLD.altered AND (NEW.altered < OLD.altered OR NEW.altered > NEW.size)) EXECUTE FUNCTION keep_altered();
