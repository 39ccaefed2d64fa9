-- A doubt names the event that records it, and is about a row that is there: the role of the gateways can't doubt anything else.
ALTER TABLE doubted_row ADD COLUMN told bigint; -- the number of the event; NULL: of an earlier version
DROP FUNCTION doubt_row(uuid);
CREATE FUNCTION doubt_row(doubted uuid, event bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM binding WHERE binding_id = doubted) AND NOT EXISTS (SELECT FROM robot WHERE robot_id = doubted) THEN
        RAISE EXCEPTION 'no role and no robot has this id' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NOT EXISTS (SELECT FROM audit_entry e WHERE e.seq = event AND e.action = 'right.doubt' AND e.leaf_hash = sha256('\x00'::bytea || e.leaf)
                   AND position(convert_to(' ' || doubted, 'UTF8') IN e.leaf) > 0) THEN
        RAISE EXCEPTION 'this event does not doubt it' USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO doubted_row (id, told) VALUES (doubted, event) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM raise_authorization_epoch();
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION doubt_row(uuid, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION doubt_row(uuid, bigint) TO sijil_app;
