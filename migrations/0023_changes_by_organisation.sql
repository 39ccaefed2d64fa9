-- What changed last in which organisation, so that a change in one does not have the decisions of all others made again, nor
-- the rights of all others read again. The nil id stands for the registry, which concerns everybody.
CREATE TABLE authorization_change (
    organisation_id uuid PRIMARY KEY,
    epoch           bigint NOT NULL,              -- authorization epoch of the last change
    names_epoch     bigint NOT NULL DEFAULT 0,    -- of the last one of organisations, projects or labels
    whole_epoch     bigint NOT NULL DEFAULT 0     -- of the last one that may have been of anything: policies, or what says no more
);
INSERT INTO authorization_change (organisation_id, epoch, names_epoch, whole_epoch)
    SELECT '00000000-0000-0000-0000-000000000000', epoch, epoch, epoch FROM authorization_epoch;

-- Raises the epoch for what concerns one organisation (NULL: the registry), and tells every gateway. The lock as below.
CREATE FUNCTION raise_authorization_epoch(organisation uuid, of_names boolean) RETURNS bigint LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(7307, 1);
    SELECT pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1;
    INSERT INTO authorization_change AS c (organisation_id, epoch, names_epoch)
        SELECT coalesce(organisation, '00000000-0000-0000-0000-000000000000'), e.epoch, CASE WHEN of_names THEN e.epoch ELSE 0 END
        FROM authorization_epoch e
        ON CONFLICT (organisation_id) DO UPDATE SET epoch = excluded.epoch, names_epoch = greatest(c.names_epoch, excluded.names_epoch);
    SELECT epoch FROM authorization_epoch;
$$;

-- As before it, for what may concern anything; gateways of an earlier version call it for all they change.
CREATE OR REPLACE FUNCTION raise_authorization_epoch() RETURNS bigint LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(7307, 1);
    SELECT pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1;
    UPDATE authorization_change SET epoch = e.epoch, names_epoch = e.epoch, whole_epoch = e.epoch
        FROM authorization_epoch e WHERE organisation_id = '00000000-0000-0000-0000-000000000000';
    SELECT epoch FROM authorization_epoch;
$$;

GRANT SELECT, INSERT, UPDATE (epoch, names_epoch, whole_epoch) ON authorization_change TO sijil_app;

-- What is read of one organisation alone.
CREATE INDEX robot_organisation ON robot (organisation_id) WHERE revoked_at IS NULL;
