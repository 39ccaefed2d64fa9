-- A dump has the persons that SCIM has provisioned: their ids and whether they may come in, no name (docs/formats/audit-dump.md). Who edits such a row lets somebody in that was deactivated.
CREATE VIEW audit_dump_person AS
    SELECT person, user_id, CASE WHEN is_deleted THEN 2 WHEN active THEN 1 ELSE 0 END AS state FROM scim_user;

CREATE OR REPLACE FUNCTION grant_audit_dump(dumper name) RETURNS void LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT SELECT ON audit_log, audit_search, audit_facts, audit_entry, audit_tile, audit_checkpoint, audit_run, audit_post,'
                   ' audit_dump_payload, audit_dump_blind, audit_dump_tag, audit_dump_binding, audit_dump_person TO %I', dumper);
    EXECUTE format('GRANT SELECT (seq) ON audit_payload TO %I', dumper);
    EXECUTE format('GRANT SELECT (piece) ON audit_archive TO %I', dumper);
END $$;

-- Roles that make dumps already, and that of the gateways, may go on.
DO $$
DECLARE reader name;
BEGIN
    FOR reader IN SELECT DISTINCT r.rolname FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
                  WHERE c.oid = 'audit_dump_binding'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT SELECT ON audit_dump_person TO %I', reader);
    END LOOP;
END $$;
