-- The leaf of an entry may be empty, because its bytes are in a region (0081). Functions of erasures (0078) looked into the leaf of an event of the person, so
-- an erasure would have failed for ever. Such an event is looked up in the index of keys instead, which each append writes and each check compares.
CREATE FUNCTION event_is_of(number bigint, pseudonym text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT coalesce((SELECT CASE WHEN length(leaf) > 0 THEN coalesce(convert_from(leaf, 'UTF8')::json ->> 'actor' = $2, false)
                                 ELSE EXISTS (SELECT FROM audit_run WHERE key = substr(sha256(convert_to('act:' || $2, 'UTF8')), 1, 16)
                                              AND last >= $1 AND last < $1 + 65536 AND $1 = ANY (seqs)) END
                     FROM audit_entry WHERE seq = $1), false)
$$;

-- The leaves of actions of erasures never go (audit_leaf_may_go). A leaf of another action is not looked into: it may be empty, and would be an error.
CREATE OR REPLACE FUNCTION erasure_event_is(number bigint, wanted_action text, wanted_resource text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT coalesce((SELECT CASE WHEN action <> $2 OR outcome <> 'allowed' THEN false WHEN $3 IS NULL THEN true
                                 WHEN length(leaf) = 0 THEN false ELSE convert_from(leaf, 'UTF8')::json ->> 'res' = $3 END
                     FROM audit_entry WHERE seq = $1), false)
$$;

-- An erasure destroys a key: one without a key would leave the sealed parts where they are, and yet end.
CREATE OR REPLACE FUNCTION erasure_begin(pseudonym text, witness bigint, asked bigint, begun bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    found bytea;
    version int;
BEGIN
    IF NOT erasure_event_is(asked, 'audit.erase', NULL) OR NOT erasure_event_is(begun, 'subject.erase', '#' || pseudonym) THEN
        RAISE EXCEPTION 'no event of the log asks for this erasure' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT p.subject INTO found FROM audit_payload p WHERE p.seq = witness;
    IF found IS NULL OR NOT event_is_of(witness, pseudonym) THEN
        RAISE EXCEPTION 'the event is of another person' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM audit_subject s WHERE s.subject = found RETURNING s.key_version INTO version;
    IF version IS NULL THEN
        RAISE EXCEPTION 'the person has no key' USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO audit_erasure (pseudonym, subject, asked, begun, key_version)
        VALUES (erasure_begin.pseudonym, found, erasure_begin.asked, erasure_begin.begun, version);
END $$;

-- It deletes what an event names, too.
DROP FUNCTION erasure_thin(text, bigint, int);
CREATE FUNCTION erasure_thin(pseudonym text, witness bigint, begun bigint, most int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    IF NOT erasure_event_is(begun, 'subject.erase', '#' || pseudonym) OR NOT event_is_of(witness, pseudonym) THEN
        RAISE EXCEPTION 'no event of the log asks for this erasure' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM audit_blind WHERE ctid = ANY (ARRAY(
        SELECT b.ctid FROM audit_blind b JOIN audit_subject s ON s.id = b.subject JOIN audit_payload p ON p.subject = s.subject
        WHERE p.seq = witness LIMIT most));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
REVOKE EXECUTE ON FUNCTION erasure_thin(text, bigint, bigint, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erasure_thin(text, bigint, bigint, int), event_is_of(bigint, text) TO sijil_app;

-- As before, but TRUNCATE gives up soon: it waits for all that read the index, all that come later wait for it, and a dump reads the index for a long time. The job
-- of the re-wrap calls again.
CREATE OR REPLACE FUNCTION audit_renew_blind(subjects bytea[], version int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(7307, 7);
    DELETE FROM audit_subject WHERE subject = ANY (subjects) AND key_version < version;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone > 0 THEN
        PERFORM set_config('lock_timeout', '250ms', true);
        TRUNCATE audit_post, audit_blind;
        UPDATE audit_search SET indexed = 0;
    END IF;
    RETURN gone;
END $$;
