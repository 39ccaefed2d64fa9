-- A new organisation or project has nothing of an older one with its name (docs/documents.md, "After a deletion"). `born` divides the
-- two, so the log says it, and no row that the application's role writes: at least one more than the highest entry. A gateway gives the
-- number of its own event, which the log gets in the same transaction, with at most 4,095 others before it. A higher number would hide
-- the log from the auditors of the new organisation.
-- The log's lock: a deletion that is under way could otherwise commit entries after this look and before the name is free. An old
-- snapshot does not show the newest entries.
CREATE FUNCTION set_born() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    next bigint;
BEGIN
    IF is_owners_hand(TG_RELID) THEN RETURN NEW; END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'an organisation or a project is made in a transaction that is READ COMMITTED, which sees the whole log'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM pg_advisory_xact_lock(7307, 2);
    SELECT coalesce(max(e.seq) + 1, 0) INTO next FROM audit_entry e;
    NEW.born := greatest(next, least(NEW.born, next + 4095));
    RETURN NEW;
END $$;
CREATE TRIGGER organisation_is_born_now BEFORE INSERT ON organisation FOR EACH ROW EXECUTE FUNCTION set_born();
CREATE TRIGGER project_is_born_now BEFORE INSERT ON project FOR EACH ROW EXECUTE FUNCTION set_born();

CREATE FUNCTION keep_born() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the time at which an organisation or a project was made does not change' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER organisation_stays_born BEFORE UPDATE ON organisation FOR EACH ROW
    WHEN (NEW.born <> OLD.born) EXECUTE FUNCTION keep_born();
CREATE TRIGGER project_stays_born BEFORE UPDATE ON project FOR EACH ROW
    WHEN (NEW.born <> OLD.born) EXECUTE FUNCTION keep_born();
