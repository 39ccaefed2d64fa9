-- A role that is given takes nothing from anybody. So what is allowed already needs no new decision behind a grant, and grants in one organisation do not wait for each other.
ALTER TABLE authorization_change ADD COLUMN taken_epoch bigint NOT NULL DEFAULT 0; -- of the last change that did more than give a role
UPDATE authorization_change SET taken_epoch = epoch;

-- As before it, in 0147, with the new column.
CREATE OR REPLACE FUNCTION raise_authorization_epoch(organisation uuid, of_names boolean) RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    INSERT INTO authorization_change AS c (organisation_id, epoch, taken_epoch, part_epoch, names_epoch)
        VALUES (coalesce(organisation, '00000000-0000-0000-0000-000000000000'), raised, raised, raised, CASE WHEN of_names THEN raised ELSE 0 END)
        ON CONFLICT (organisation_id) DO UPDATE SET epoch = excluded.epoch, taken_epoch = excluded.taken_epoch, part_epoch = excluded.part_epoch,
            names_epoch = greatest(c.names_epoch, excluded.names_epoch);
    RETURN raised;
END $$;
CREATE OR REPLACE FUNCTION raise_authorization_epoch() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    UPDATE authorization_change SET epoch = raised, taken_epoch = raised, part_epoch = raised, names_epoch = raised, whole_epoch = raised
        WHERE organisation_id = '00000000-0000-0000-0000-000000000000';
    RETURN raised;
END $$;
CREATE OR REPLACE FUNCTION raise_authorization_epoch_of_binding(changed uuid) RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint; scope uuid;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    UPDATE binding SET changed_epoch = raised WHERE binding_id = changed
        RETURNING coalesce(organisation_id, '00000000-0000-0000-0000-000000000000') INTO scope;
    INSERT INTO authorization_change AS c (organisation_id, epoch, taken_epoch) SELECT scope, raised, raised WHERE scope IS NOT NULL
        ON CONFLICT (organisation_id) DO UPDATE SET epoch = excluded.epoch, taken_epoch = excluded.taken_epoch;
    RETURN raised;
END $$;

-- For a role that is given in an organisation (NULL: the registry). The row of the role gets this epoch as its changed_epoch.
CREATE FUNCTION raise_authorization_epoch_of_grant(organisation uuid) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    INSERT INTO authorization_change AS c (organisation_id, epoch) VALUES (coalesce(organisation, '00000000-0000-0000-0000-000000000000'), raised)
        ON CONFLICT (organisation_id) DO UPDATE SET epoch = excluded.epoch;
    RETURN raised;
END $$;
