-- The log tells who a person of SCIM is: its externalId, and each subject of tokens that is joined with it, as digests over a salt that goes with the row (docs/formats/audit-dump.md).
-- `told` is the number of the event. Groups give no role by a row that such an event does not vouch for. Rows from before have no event: they get one with the next login of the person.
CREATE FUNCTION scim_salt() RETURNS bytea LANGUAGE sql VOLATILE AS $$ SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) $$;
CREATE FUNCTION scim_identity(salt bytea, issuer text, external_id text) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(salt || convert_to(issuer, 'UTF8') || '\x00'::bytea || convert_to(external_id, 'UTF8'))
$$;
CREATE FUNCTION scim_link(salt bytea, issuer text, external_id text, subject_issuer text, subject text) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(salt || convert_to(issuer, 'UTF8') || '\x00'::bytea || convert_to(external_id, 'UTF8') || '\x00'::bytea || convert_to(subject_issuer, 'UTF8')
        || '\x00'::bytea || convert_to(subject, 'UTF8'))
$$;

ALTER TABLE scim_user ADD COLUMN salt bytea NOT NULL DEFAULT scim_salt() CHECK (length(salt) = 32), ADD COLUMN told bigint;
ALTER TABLE scim_subject ADD COLUMN salt bytea NOT NULL DEFAULT scim_salt() CHECK (length(salt) = 32), ADD COLUMN told bigint,
    ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY UNIQUE;
CREATE INDEX scim_subject_told ON scim_subject (told);

CREATE OR REPLACE VIEW audit_dump_person AS
    SELECT person, user_id, CASE WHEN is_deleted THEN 2 WHEN active THEN 1 ELSE 0 END AS state, told, scim_identity(salt, issuer, external_id) AS identity
    FROM scim_user;
CREATE VIEW audit_dump_link AS
    SELECT s.number, u.user_id, s.told, scim_link(s.salt, u.issuer, u.external_id, s.issuer, s.subject) AS link FROM scim_subject s JOIN scim_user u USING (person);

-- The rows that an event vouches for: persons, and their subjects. Each entry is looked up by its number, however many persons there are.
CREATE VIEW scim_vouched_person AS
    SELECT u.person, u.issuer, u.external_id, d.identity FROM scim_user u
    CROSS JOIN LATERAL (SELECT encode(scim_identity(u.salt, u.issuer, u.external_id), 'hex') AS identity) AS d
    CROSS JOIN LATERAL (SELECT e.action, e.leaf FROM audit_entry e
                        WHERE e.seq = u.told AND e.outcome = 'allowed' AND e.leaf_hash = sha256('\x00'::bytea || e.leaf) OFFSET 0) AS e
    WHERE CASE WHEN e.action = 'token.mint' THEN position(convert_to(' person=' || u.user_id || ' as=' || d.identity, 'UTF8') IN e.leaf) > 0
               ELSE e.action IN ('scim.create', 'scim.change', 'scim.end') AND position(convert_to('#' || u.user_id || ' ', 'UTF8') IN e.leaf) > 0
                   AND position(convert_to(' as=' || d.identity, 'UTF8') IN e.leaf) > 0 END;
CREATE VIEW scim_vouched AS
    SELECT s.person, s.issuer, s.subject FROM scim_vouched_person u JOIN scim_subject s USING (person)
    CROSS JOIN LATERAL (SELECT encode(scim_link(s.salt, u.issuer, u.external_id, s.issuer, s.subject), 'hex') AS link) AS d
    CROSS JOIN LATERAL (SELECT e.action, e.leaf FROM audit_entry e
                        WHERE e.seq = s.told AND e.outcome = 'allowed' AND e.leaf_hash = sha256('\x00'::bytea || e.leaf) OFFSET 0) AS e
    WHERE e.action IN ('token.mint', 'scim.create') AND position(convert_to(' as=' || u.identity || ' link=' || d.link, 'UTF8') IN e.leaf) > 0;
GRANT SELECT ON scim_vouched_person, scim_vouched TO sijil_app;

CREATE OR REPLACE FUNCTION grant_audit_dump(dumper name) RETURNS void LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT SELECT ON audit_log, audit_search, audit_facts, audit_entry, audit_tile, audit_checkpoint, audit_run, audit_post,'
                   ' audit_dump_payload, audit_dump_blind, audit_dump_tag, audit_dump_binding, audit_dump_person, audit_dump_link, audit_dump_group TO %I', dumper);
    EXECUTE format('GRANT SELECT (seq) ON audit_payload TO %I', dumper);
    EXECUTE format('GRANT SELECT (piece) ON audit_archive TO %I', dumper);
END $$;

-- Roles that make dumps already, and that of the gateways, may go on.
DO $$
DECLARE reader name;
BEGIN
    FOR reader IN SELECT DISTINCT r.rolname FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
                  WHERE c.oid = 'audit_dump_group'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT SELECT ON audit_dump_link TO %I', reader);
    END LOOP;
END $$;
