-- As raise_authorization_epoch_of_grant(), for several roles that are given at once, in organisations (NULL: the registry). Without any, NULL.
CREATE FUNCTION raise_authorization_epoch_of_grants(organisations uuid[]) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE raised bigint;
BEGIN
    IF organisations IS NULL THEN RETURN NULL; END IF;
    PERFORM pg_advisory_xact_lock(7307, 1);
    PERFORM pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch INTO STRICT raised;
    INSERT INTO authorization_change AS c (organisation_id, epoch)
        SELECT DISTINCT coalesce(o, '00000000-0000-0000-0000-000000000000'), raised FROM unnest(organisations) AS o
        ON CONFLICT (organisation_id) DO UPDATE SET epoch = excluded.epoch;
    RETURN raised;
END $$;
