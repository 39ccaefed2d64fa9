-- Entries of the log whose bytes are in a region, too (docs/audit.md, "Old entries in another place"): pieces of 4,096 entries, each one sealed object. A row is
-- written after the object was read back and compared with the entries. The row of the entry stays, with its hash, time, action and outcome; the
-- owner of the database may then make the leaf empty. Payloads stay in the database: an erasure must reach them.
CREATE TABLE audit_archive (
    piece       bigint PRIMARY KEY CHECK (piece >= 0),   -- the entries from 4096 * piece on
    region_id   text NOT NULL REFERENCES region,
    blob_id     uuid NOT NULL UNIQUE,
    size_bytes  byte_count NOT NULL,
    part        part_number NOT NULL,
    digest      bytes_32 NOT NULL,                       -- SHA-256 of the object's content
    sequence    bigint NOT NULL,                         -- of the event audit.archive
    archived_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT ON audit_archive TO sijil_app;

-- The bounds of a partition of audit_entry; NULL if it is none.
CREATE FUNCTION audit_partition_bounds(partition regclass, OUT first bigint, OUT until bigint) LANGUAGE sql STABLE
SET search_path = public, pg_temp AS $$
    SELECT substring(b FROM 'FROM \(''?(-?[0-9]+)''?\)')::bigint, substring(b FROM 'TO \(''?(-?[0-9]+)''?\)')::bigint
    FROM (SELECT pg_get_expr(c.relpartbound, c.oid) AS b FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
          WHERE c.oid = partition AND i.inhparent = 'audit_entry'::regclass) AS of_partition
$$;

-- Whether the leaf of an entry may be elsewhere. What the database itself looks up in leaves stays; so do events that rows outside the log follow from, tags
-- and bindings, which a check of a dump reads without a region; and the last entry of each key, which an append compares with the index.
CREATE FUNCTION audit_leaf_may_go(action text) RETURNS bool LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT action IN ('blob.read', 'blob.stat', 'manifest.read', 'manifest.stat', 'tag.list', 'referrer.list', 'catalog.list', 'registry.ping',
                      'upload.begin', 'upload.write', 'upload.commit', 'upload.probe', 'upload.read', 'audit.read', 'checkpoint.read', 'tile.read',
                      'entries.read', 'denied.burst', 'http.refused')
$$;

-- For the owner of the database: copies the rows of a full partition beside it, without the leaves of archived entries. Nobody changes these rows
-- meanwhile.
CREATE FUNCTION audit_copy_released(partition regclass) RETURNS text LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    name  text := (SELECT relname FROM pg_class WHERE oid = partition);
    copy  text := name || '_released';
    bound record;
BEGIN
    SELECT * INTO bound FROM audit_partition_bounds(partition);
    IF bound.first IS NULL OR bound.until IS NULL OR bound.until > (SELECT size FROM audit_log) THEN
        RAISE EXCEPTION '% is no full partition of audit_entry', partition;
    END IF;
    IF EXISTS (SELECT FROM generate_series(bound.first / 4096, bound.until / 4096 - 1) AS p (piece)
               WHERE NOT EXISTS (SELECT FROM audit_archive a WHERE a.piece = p.piece)) THEN
        RAISE EXCEPTION 'not all entries of % are archived: sijil admin audit archive --before %', partition, bound.until;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS %I', copy);
    EXECUTE format('CREATE TABLE %I (LIKE audit_entry INCLUDING ALL)', copy);
    -- An administrator may call it, too; a later migration must still own every partition.
    EXECUTE format('ALTER TABLE %I OWNER TO %I', copy, (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = partition));
    EXECUTE format('INSERT INTO %I SELECT e.seq, e.ts, CASE WHEN audit_leaf_may_go(e.action) AND l.last IS NULL THEN %L ELSE e.leaf END,'
                   ' e.leaf_hash, e.action, e.outcome FROM %s e LEFT JOIN (SELECT DISTINCT max(r.last) AS last FROM audit_run r GROUP BY r.key) l'
                   ' ON l.last = e.seq', copy, ''::bytea, partition);
    -- With this constraint the exchange does not read the rows.
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT bounds CHECK (seq >= %s AND seq < %s)', copy, bound.first, bound.until);
    RETURN copy;
END $$;
REVOKE EXECUTE ON FUNCTION audit_copy_released(regclass) FROM PUBLIC;

-- Exchanges a partition and its copy. Appends wait meanwhile, so it takes its locks within a tenth of a second, or fails.
CREATE FUNCTION audit_exchange_released(partition regclass) RETURNS void LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    name  text := (SELECT relname FROM pg_class WHERE oid = partition);
    copy  text := name || '_released';
    bound record;
BEGIN
    SET LOCAL lock_timeout = '100ms';
    SELECT * INTO bound FROM audit_partition_bounds(partition);
    EXECUTE format('ALTER TABLE audit_entry DETACH PARTITION %I', name);
    EXECUTE format('DROP TABLE %I', name);
    EXECUTE format('ALTER TABLE %I RENAME TO %I', copy, name);
    EXECUTE format('ALTER TABLE audit_entry ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, bound.first, bound.until);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT bounds', name);
END $$;
REVOKE EXECUTE ON FUNCTION audit_exchange_released(regclass) FROM PUBLIC;

-- Both, outside a transaction: CALL audit_release_archived('audit_entry_0').
CREATE PROCEDURE audit_release_archived(partition regclass) LANGUAGE plpgsql AS $$
DECLARE
    is_done bool := false;
BEGIN
    PERFORM public.audit_copy_released(partition);
    COMMIT;
    FOR attempt IN 1 .. 600 LOOP
        BEGIN
            PERFORM public.audit_exchange_released(partition);
            is_done := true;
        EXCEPTION WHEN lock_not_available THEN NULL;
        END;
        COMMIT;
        IF is_done THEN RETURN; END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RAISE EXCEPTION 'the log was too busy for ten minutes; try again';
END $$;
REVOKE EXECUTE ON PROCEDURE audit_release_archived(regclass) FROM PUBLIC;

-- As 0073, with the number of archived pieces: a dump says which entries may lack their bytes.
CREATE OR REPLACE FUNCTION grant_audit_dump(dumper name) RETURNS void LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT SELECT ON audit_log, audit_search, audit_facts, audit_entry, audit_tile, audit_checkpoint, audit_run, audit_post,'
                   ' audit_dump_payload, audit_dump_blind, audit_dump_tag, audit_dump_binding TO %I', dumper);
    EXECUTE format('GRANT SELECT (seq) ON audit_payload TO %I', dumper);
    EXECUTE format('GRANT SELECT (piece) ON audit_archive TO %I', dumper);
END $$;
