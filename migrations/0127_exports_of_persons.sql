-- An export of act:PSEUDONYM stands under this key (docs/formats/audit-export.md), and is no event of the person: its actor is the auditor. As before (0119), but such
-- an export does not stop the erasure of a person that never acted. The leaf of an export is never released (audit_leaf_may_go).
CREATE OR REPLACE FUNCTION erasure_begin_named(pseudonym text, asked bigint, begun bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    found bytea;
    version int;
BEGIN
    IF NOT erasure_event_is(asked, 'audit.erase', NULL) OR NOT erasure_event_is(begun, 'subject.erase', '#' || pseudonym) THEN
        RAISE EXCEPTION 'no event of the log asks for this erasure' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT n.subject INTO found FROM audit_named n WHERE n.pseudonym = erasure_begin_named.pseudonym;
    IF found IS NULL OR EXISTS (SELECT FROM audit_run r CROSS JOIN LATERAL unnest(r.seqs) AS i (seq) LEFT JOIN audit_entry e ON e.seq = i.seq
            WHERE r.key = substr(sha256(convert_to('act:' || erasure_begin_named.pseudonym, 'UTF8')), 1, 16)
            AND (e.action IS DISTINCT FROM 'audit.export' OR position(convert_to('"actor":"' || erasure_begin_named.pseudonym || '"', 'UTF8') IN e.leaf) > 0)) THEN
        RAISE EXCEPTION 'the person has acted: its events name it' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM audit_subject s WHERE s.subject = found RETURNING s.key_version INTO version;
    IF version IS NULL THEN
        RAISE EXCEPTION 'the person has no key' USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO audit_erasure (pseudonym, subject, asked, begun, key_version)
        VALUES (erasure_begin_named.pseudonym, found, erasure_begin_named.asked, erasure_begin_named.begun, version);
END $$;
