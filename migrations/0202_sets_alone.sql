-- A policy set is loaded alone. Until now each gateway read all robots, roles and groups again with a new set, so the set came into force the later the more of them there are.
-- A gateway of an earlier version goes on to do so: it knows whole_epoch alone.
ALTER TABLE authorization_change ADD COLUMN rights_epoch bigint NOT NULL DEFAULT 0; -- of the last change, but for policy sets, that may have been of anything
UPDATE authorization_change SET rights_epoch = whole_epoch;

-- As before it, in 0148, with the new column.
CREATE OR REPLACE FUNCTION raise_authorization_epoch() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    UPDATE authorization_change SET epoch = raised, taken_epoch = raised, part_epoch = raised, names_epoch = raised, whole_epoch = raised, rights_epoch = raised
        WHERE organisation_id = '00000000-0000-0000-0000-000000000000';
    RETURN raised;
END $$;

-- For a policy set, with the labels that the one before it leaves behind. All decisions are made again; no robot or role has changed.
CREATE FUNCTION raise_authorization_epoch_of_set() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    UPDATE authorization_change SET epoch = raised, taken_epoch = raised, names_epoch = raised, whole_epoch = raised
        WHERE organisation_id = '00000000-0000-0000-0000-000000000000';
    RETURN raised;
END $$;
