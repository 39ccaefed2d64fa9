-- The keys of subjects are wrapped again under the newest epoch (docs/keys.md, "Rotation"), so that no copy of the database opens the key of a person that was
-- erased. The gateways' role can't change the table itself: a newer version replaces exactly the key that was read.
CREATE FUNCTION audit_rewrap_subjects(subjects bytea[], old bytea[], fresh bytea[], version int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    UPDATE audit_subject s SET key_version = version, wrapped_key = n.fresh
        FROM unnest(subjects, old, fresh) AS n (subject, old, fresh)
        WHERE s.subject = n.subject AND s.wrapped_key = n.old AND s.key_version < version;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;

-- The keys of blind keys are made anew, and the index of searches with them: an old copy of the index must not be searched by a key of today. The lock is that
-- of the thread that writes the index (audit/audit_search_index_store.c).
CREATE FUNCTION audit_renew_blind(subjects bytea[], version int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 7);
    DELETE FROM audit_subject WHERE subject = ANY (subjects) AND key_version < version;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone > 0 THEN
        TRUNCATE audit_post, audit_blind;
        UPDATE audit_search SET indexed = 0;
    END IF;
    RETURN gone;
END $$;

REVOKE EXECUTE ON FUNCTION audit_rewrap_subjects(bytea[], bytea[], bytea[], int), audit_renew_blind(bytea[], int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit_rewrap_subjects(bytea[], bytea[], bytea[], int), audit_renew_blind(bytea[], int) TO sijil_app;
