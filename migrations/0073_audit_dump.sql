-- What sijil-audit-dump reads (docs/formats/audit-dump.md): rows of the log, and what stands in rows beside it, without names of persons and without
-- sealed text. A role that may read nothing but this gets its rights from the owner of the database: SELECT grant_audit_dump('sijil_auditor_dump').
CREATE VIEW audit_dump_payload AS
    SELECT p.seq, p.subject, s.subject IS NOT NULL AS has_key, octet_length(p.box) AS length
    FROM audit_payload p LEFT JOIN audit_subject s ON s.subject = p.subject;
CREATE VIEW audit_dump_blind AS
    SELECT b.key, b.block, b.subject AS id, s.subject, b.list FROM audit_blind b LEFT JOIN audit_subject s ON s.id = b.subject;
CREATE VIEW audit_dump_tag AS
    SELECT t.repository_id, t.name, r.full_name, t.manifest_digest FROM tag t JOIN repository r USING (repository_id)
    WHERE r.deleted_at IS NULL;
CREATE VIEW audit_dump_binding AS
    SELECT b.binding_id, b.role, coalesce('robot:' || b.robot_id, 'external') AS holder,
           coalesce(b.pattern, o.name || '/' || p.name, o.name, '') AS scope,
           b.revoked_at IS NULL AND (b.expires_at IS NULL OR b.expires_at > now()) AND (b.robot_id IS NULL OR r.revoked_at IS NULL)
           AND o.deleted_at IS NULL AND p.deleted_at IS NULL AS is_live
    FROM binding b LEFT JOIN robot r USING (robot_id) LEFT JOIN organisation o ON o.organisation_id = b.organisation_id
    LEFT JOIN project p ON p.project_id = b.project_id;
GRANT SELECT ON audit_dump_payload, audit_dump_blind, audit_dump_tag, audit_dump_binding TO sijil_app;

CREATE FUNCTION grant_audit_dump(dumper name) RETURNS void LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT SELECT ON audit_log, audit_search, audit_facts, audit_entry, audit_tile, audit_checkpoint, audit_run, audit_post,'
                   ' audit_dump_payload, audit_dump_blind, audit_dump_tag, audit_dump_binding TO %I', dumper);
    EXECUTE format('GRANT SELECT (seq) ON audit_payload TO %I', dumper);
END $$;
REVOKE EXECUTE ON FUNCTION grant_audit_dump(name) FROM PUBLIC;
