-- A role that is given or taken is read alone. Until now each gateway read all robots and roles of the organisation again, so a change cost as much as the
-- organisation is large.
ALTER TABLE authorization_change ADD COLUMN part_epoch bigint NOT NULL DEFAULT 0; -- of the last change of more than single roles
UPDATE authorization_change SET part_epoch = epoch;
ALTER TABLE binding ADD COLUMN changed_epoch bigint NOT NULL DEFAULT 0; -- at which it was given or taken one by one
CREATE INDEX binding_changed ON binding (changed_epoch);

-- As before it; gateways of an earlier version call it for single roles, too. In PL/pgSQL a session keeps the plans: a function in SQL makes them at each call, and
-- each change calls one of these three while it holds the lock that all appends to the log wait for.
CREATE OR REPLACE FUNCTION raise_authorization_epoch(organisation uuid, of_names boolean) RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    INSERT INTO authorization_change AS c (organisation_id, epoch, part_epoch, names_epoch)
        VALUES (coalesce(organisation, '00000000-0000-0000-0000-000000000000'), raised, raised, CASE WHEN of_names THEN raised ELSE 0 END)
        ON CONFLICT (organisation_id) DO UPDATE SET epoch = excluded.epoch, part_epoch = excluded.part_epoch,
            names_epoch = greatest(c.names_epoch, excluded.names_epoch);
    RETURN raised;
END $$;
CREATE OR REPLACE FUNCTION raise_authorization_epoch() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    UPDATE authorization_change SET epoch = raised, part_epoch = raised, names_epoch = raised, whole_epoch = raised
        WHERE organisation_id = '00000000-0000-0000-0000-000000000000';
    RETURN raised;
END $$;

-- The same for one role, whose row is there, or was ended in this transaction. Without such a row nothing has changed.
CREATE FUNCTION raise_authorization_epoch_of_binding(changed uuid) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint; scope uuid;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    UPDATE binding SET changed_epoch = raised WHERE binding_id = changed
        RETURNING coalesce(organisation_id, '00000000-0000-0000-0000-000000000000') INTO scope;
    INSERT INTO authorization_change AS c (organisation_id, epoch) SELECT scope, raised WHERE scope IS NOT NULL
        ON CONFLICT (organisation_id) DO UPDATE SET epoch = excluded.epoch;
    RETURN raised;
END $$;
