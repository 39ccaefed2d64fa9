-- Persons are erased from the log by documents that two persons sign, and a hold stops it (docs/erasure.md). They are documents of the kinds 7 and 8
-- (documents/format/kinds.def). The log has no event of these actions yet, so the index audit_entry_document stays right.
CREATE OR REPLACE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 WHEN 'runner.approve' THEN 3 WHEN 'runner.revoke' THEN 3
                   WHEN 'rule.approve' THEN 4 WHEN 'rule.revoke' THEN 4 WHEN 'sink.approve' THEN 5 WHEN 'sink.revoke' THEN 5
                   WHEN 'detection.approve' THEN 6 WHEN 'detection.revoke' THEN 6 WHEN 'audit.erase' THEN 7 WHEN 'hold.add' THEN 8
                   WHEN 'hold.release' THEN 8 END
$$;

-- One row for each erased person, who is named by the pseudonym alone. It is written in the transaction that destroys the person's key.
CREATE TABLE audit_erasure (
    pseudonym   text PRIMARY KEY CHECK (pseudonym ~ '^[0-9a-f]{64}$'),
    subject     bytea CHECK (length(subject) = 32), -- of the rows that are still to be deleted; NULL at the end, so that nothing leads back to the person
    asked       bigint NOT NULL,                    -- numbers of events: audit.erase,
    begun       bigint NOT NULL,                    -- subject.erase,
    ended       bigint,                             -- and the one behind it, when all is done
    key_version int NOT NULL,                       -- that the key was wrapped under last; 0: there was no key any more
    payloads    byte_count NOT NULL DEFAULT 0,      -- that were deleted
    erased_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON audit_erasure TO sijil_app;

-- The gateways' role may delete nothing of the log. These functions delete what an event of an erasure names, and nothing else.
CREATE FUNCTION erasure_event_is(number bigint, wanted_action text, wanted_resource text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT coalesce((SELECT action = $2 AND outcome = 'allowed' AND ($3 IS NULL OR convert_from(leaf, 'UTF8')::json ->> 'res' = $3)
                     FROM audit_entry WHERE seq = $1), false)
$$;

-- `witness` is an event of the person: its leaf has the pseudonym, and its sealed part the row of the key.
CREATE FUNCTION erasure_begin(pseudonym text, witness bigint, asked bigint, begun bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    found bytea;
    version int;
BEGIN
    IF NOT erasure_event_is(asked, 'audit.erase', NULL) OR NOT erasure_event_is(begun, 'subject.erase', '#' || pseudonym) THEN
        RAISE EXCEPTION 'no event of the log asks for this erasure' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT p.subject INTO found FROM audit_payload p JOIN audit_entry e USING (seq)
        WHERE p.seq = witness AND convert_from(e.leaf, 'UTF8')::json ->> 'actor' = erasure_begin.pseudonym;
    IF found IS NULL AND witness >= 0 THEN
        RAISE EXCEPTION 'the event is of another person' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM audit_subject s WHERE s.subject = found RETURNING s.key_version INTO version;
    INSERT INTO audit_erasure (pseudonym, subject, asked, begun, key_version)
        VALUES (erasure_begin.pseudonym, found, erasure_begin.asked, erasure_begin.begun, coalesce(version, 0));
END $$;

-- Blind keys of the index of searches go before the key, a part at a time: with the key all that are left go at once.
CREATE FUNCTION erasure_thin(pseudonym text, witness bigint, most int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    DELETE FROM audit_blind WHERE ctid = ANY (ARRAY(
        SELECT b.ctid FROM audit_blind b JOIN audit_subject s ON s.id = b.subject JOIN audit_payload p ON p.subject = s.subject JOIN audit_entry e USING (seq)
        WHERE p.seq = witness AND convert_from(e.leaf, 'UTF8')::json ->> 'actor' = erasure_thin.pseudonym LIMIT most));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

CREATE FUNCTION erasure_forget(pseudonym text, numbers bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    DELETE FROM audit_payload p USING audit_erasure a
        WHERE a.pseudonym = erasure_forget.pseudonym AND a.ended IS NULL AND p.subject = a.subject AND p.seq = ANY (numbers);
    GET DIAGNOSTICS gone = ROW_COUNT;
    UPDATE audit_erasure a SET payloads = a.payloads + gone WHERE a.pseudonym = erasure_forget.pseudonym AND gone > 0;
    RETURN gone;
END $$;

-- Roles that have ended keep their row, without the name.
CREATE FUNCTION erasure_rename(pseudonym text, old_issuer text, old_subject text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM audit_erasure a WHERE a.pseudonym = erasure_rename.pseudonym AND a.ended IS NULL) THEN
        RAISE EXCEPTION 'this erasure has not begun, or has ended' USING ERRCODE = 'insufficient_privilege';
    END IF;
    UPDATE binding SET subject = 'erased:' || erasure_rename.pseudonym
        WHERE issuer = old_issuer AND subject = old_subject AND (revoked_at IS NOT NULL OR expires_at <= now());
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;

CREATE FUNCTION erasure_end(pseudonym text, ended bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    UPDATE audit_erasure a SET ended = erasure_end.ended, subject = NULL WHERE a.pseudonym = erasure_end.pseudonym AND a.ended IS NULL;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;

REVOKE EXECUTE ON FUNCTION erasure_begin(text, bigint, bigint, bigint), erasure_thin(text, bigint, int), erasure_forget(text, bigint[]),
    erasure_rename(text, text, text), erasure_end(text, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erasure_event_is(bigint, text, text), erasure_begin(text, bigint, bigint, bigint), erasure_thin(text, bigint, int),
    erasure_forget(text, bigint[]), erasure_rename(text, text, text), erasure_end(text, bigint) TO sijil_app;
