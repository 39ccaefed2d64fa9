-- A person that has or had a role and never acted is erased, too (docs/erasure.md). The log has no event that names it, so a row says for which row of a role
-- its pseudonym stands. The row has no name of its own, and goes with the name.
CREATE TABLE audit_named (
    pseudonym  text PRIMARY KEY CHECK (pseudonym ~ '^[0-9a-f]{64}$'),
    subject    bytea NOT NULL CHECK (length(subject) = 32), -- of the row of the key
    binding_id uuid NOT NULL REFERENCES binding ON DELETE CASCADE
);
GRANT SELECT, INSERT ON audit_named TO sijil_app;

-- As erasure_begin (0082), for a person that no event names.
CREATE FUNCTION erasure_begin_named(pseudonym text, asked bigint, begun bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    found bytea;
    version int;
BEGIN
    IF NOT erasure_event_is(asked, 'audit.erase', NULL) OR NOT erasure_event_is(begun, 'subject.erase', '#' || pseudonym) THEN
        RAISE EXCEPTION 'no event of the log asks for this erasure' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT n.subject INTO found FROM audit_named n WHERE n.pseudonym = erasure_begin_named.pseudonym;
    IF found IS NULL OR EXISTS (SELECT FROM audit_run r WHERE r.key = substr(sha256(convert_to('act:' || erasure_begin_named.pseudonym, 'UTF8')), 1, 16)) THEN
        RAISE EXCEPTION 'the person has acted: its events name it' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM audit_subject s WHERE s.subject = found RETURNING s.key_version INTO version;
    IF version IS NULL THEN
        RAISE EXCEPTION 'the person has no key' USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO audit_erasure (pseudonym, subject, asked, begun, key_version)
        VALUES (erasure_begin_named.pseudonym, found, erasure_begin_named.asked, erasure_begin_named.begun, version);
END $$;
REVOKE EXECUTE ON FUNCTION erasure_begin_named(text, bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erasure_begin_named(text, bigint, bigint) TO sijil_app;

-- As before (0078), and what led from the pseudonym to the role goes.
CREATE OR REPLACE FUNCTION erasure_rename(pseudonym text, old_issuer text, old_subject text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM audit_erasure a WHERE a.pseudonym = erasure_rename.pseudonym AND a.ended IS NULL) THEN
        RAISE EXCEPTION 'this erasure has not begun, or has ended' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM audit_named n WHERE n.pseudonym = erasure_rename.pseudonym;
    UPDATE binding SET subject = 'erased:' || erasure_rename.pseudonym
        WHERE issuer = old_issuer AND subject = old_subject AND (revoked_at IS NOT NULL OR expires_at <= now());
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;
