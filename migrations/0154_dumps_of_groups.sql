-- A dump has each group that SCIM has provisioned, with a digest of its externalId and the ids of its members (docs/formats/audit-dump.md). Who edits these rows gives somebody the roles of a
-- group.

-- A person that was deleted or erased leaves its groups without an event of each. Its id stays here until the group's next event, which has the members from then on.
CREATE TABLE scim_past_member (
    group_id uuid NOT NULL REFERENCES scim_group ON DELETE CASCADE,
    user_id  uuid NOT NULL,
    PRIMARY KEY (group_id, user_id)
);
GRANT SELECT, INSERT, DELETE ON scim_past_member TO sijil_app;

CREATE FUNCTION keep_past_members() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO scim_past_member (group_id, user_id) SELECT group_id, OLD.user_id FROM scim_member WHERE person = OLD.person ON CONFLICT DO NOTHING;
    RETURN OLD;
END $$;
CREATE TRIGGER scim_user_leaves BEFORE DELETE ON scim_user FOR EACH ROW EXECUTE FUNCTION keep_past_members();

-- Only a person that is gone counts as a past member: whoever moves somebody else there changes the digest.
CREATE VIEW audit_dump_group AS
    SELECT g.group_id, (SELECT sha256(convert_to(g.issuer || E'\n' || coalesce(g.external_id, ''), 'UTF8') || '\x00'::bytea
        || coalesce(string_agg(uuid_send(m.user_id), ''::bytea ORDER BY m.user_id), ''::bytea)) FROM (
        SELECT (SELECT u.user_id FROM scim_user u WHERE u.person = s.person) AS user_id FROM scim_member s WHERE s.group_id = g.group_id
        UNION ALL SELECT p.user_id FROM scim_past_member p WHERE p.group_id = g.group_id
            AND NOT EXISTS (SELECT FROM scim_user u WHERE u.user_id = p.user_id AND NOT u.is_deleted)) AS m) AS members
    FROM scim_group g;

CREATE OR REPLACE FUNCTION grant_audit_dump(dumper name) RETURNS void LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT SELECT ON audit_log, audit_search, audit_facts, audit_entry, audit_tile, audit_checkpoint, audit_run, audit_post,'
                   ' audit_dump_payload, audit_dump_blind, audit_dump_tag, audit_dump_binding, audit_dump_person, audit_dump_group TO %I', dumper);
    EXECUTE format('GRANT SELECT (seq) ON audit_payload TO %I', dumper);
    EXECUTE format('GRANT SELECT (piece) ON audit_archive TO %I', dumper);
END $$;

-- Roles that make dumps already, and that of the gateways, may go on.
DO $$
DECLARE reader name;
BEGIN
    FOR reader IN SELECT DISTINCT r.rolname FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
                  WHERE c.oid = 'audit_dump_person'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT SELECT ON audit_dump_group TO %I', reader);
    END LOOP;
END $$;
