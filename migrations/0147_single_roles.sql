-- A role that is given or taken is read alone. Until now each gateway read all robots and roles of the organisation again, so a change cost as much as the
-- organisation is large.
ALTER TABLE authorization_change ADD COLUMN part_epoch bigint NOT NULL DEFAULT 0; -- of the last change of more than single roles
UPDATE authorization_change SET part_epoch = epoch;
ALTER TABLE binding ADD COLUMN changed_epoch bigint NOT NULL DEFAULT 0; -- at which it was given or taken one by one
CREATE INDEX binding_changed ON binding (changed_epoch);

-- As before it; gateways of an earlier version call it for single roles, too.
CREATE OR REPLACE FUNCTION raise_authorization_epoch(organisation uuid, of_names boolean) RETURNS bigint LANGUAGE sql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT pg_advisory_xact_lock(7307, 1);
    SELECT pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1;
    INSERT INTO authorization_change AS c (organisation_id, epoch, part_epoch, names_epoch)
        SELECT coalesce(organisation, '00000000-0000-0000-0000-000000000000'), e.epoch, e.epoch, CASE WHEN of_names THEN e.epoch ELSE 0 END
        FROM authorization_epoch e
        ON CONFLICT (organisation_id) DO UPDATE SET epoch = excluded.epoch, part_epoch = excluded.part_epoch,
            names_epoch = greatest(c.names_epoch, excluded.names_epoch);
    SELECT epoch FROM authorization_epoch;
$$;
CREATE OR REPLACE FUNCTION raise_authorization_epoch() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT pg_advisory_xact_lock(7307, 1);
    SELECT pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1;
    UPDATE authorization_change SET epoch = e.epoch, part_epoch = e.epoch, names_epoch = e.epoch, whole_epoch = e.epoch
        FROM authorization_epoch e WHERE organisation_id = '00000000-0000-0000-0000-000000000000';
    SELECT epoch FROM authorization_epoch;
$$;

-- The same for one role, whose row is there, or was ended in this transaction.
CREATE FUNCTION raise_authorization_epoch_of_binding(changed uuid) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT pg_advisory_xact_lock(7307, 1);
    SELECT pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1;
    UPDATE binding SET changed_epoch = e.epoch FROM authorization_epoch e WHERE binding_id = changed;
    INSERT INTO authorization_change AS c (organisation_id, epoch)
        SELECT coalesce(b.organisation_id, '00000000-0000-0000-0000-000000000000'), e.epoch
        FROM authorization_epoch e, binding b WHERE b.binding_id = changed
        ON CONFLICT (organisation_id) DO UPDATE SET epoch = excluded.epoch;
    SELECT epoch FROM authorization_epoch;
$$;
