-- Events tell whose a role is and how long it lasts, a robot's secret, and the groups that a login's token named, as digests (docs/formats/audit-dump.md). Subjects and groups are over a salt
-- that stands in the row: without the row the log names nobody. What a secret is over needs no salt: it is random.
ALTER TABLE binding ADD COLUMN salt bytea CHECK (length(salt) = 32); -- NULL: of an earlier version
ALTER TABLE group_login ADD COLUMN salt bytea NOT NULL DEFAULT scim_salt() CHECK (length(salt) = 32), ADD COLUMN told bigint; -- the number of the event

CREATE FUNCTION told_subject(salt bytea, issuer text, subject text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT substr(encode(sha256(salt || convert_to(issuer, 'UTF8') || '\x00'::bytea || convert_to(subject, 'UTF8')), 'hex'), 1, 32)
$$;
CREATE FUNCTION told_secret(secret_hash bytea) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT substr(encode(sha256(convert_to('sijil robot secret', 'UTF8') || secret_hash), 'hex'), 1, 32)
$$;
CREATE FUNCTION told_groups(salt bytea, issuer text, subject text, groups text[]) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT substr(encode(sha256(salt || convert_to(issuer, 'UTF8') || '\x00'::bytea || convert_to(subject, 'UTF8') || '\x00'::bytea || convert_to(groups::text, 'UTF8')), 'hex'), 1, 32)
$$;

CREATE OR REPLACE VIEW audit_dump_binding AS
    SELECT b.binding_id, b.role, coalesce('robot:' || b.robot_id, 'external') AS holder,
           coalesce(b.pattern, o.name || '/' || p.name, o.name, '') AS scope,
           b.revoked_at IS NULL AND (b.expires_at IS NULL OR b.expires_at > now()) AND (b.robot_id IS NULL OR r.revoked_at IS NULL)
           AND o.deleted_at IS NULL AND p.deleted_at IS NULL AS is_live,
           CASE WHEN b.robot_id IS NULL THEN told_subject(b.salt, b.issuer, b.subject) END AS identity, b.expires_at
    FROM binding b LEFT JOIN robot r USING (robot_id) LEFT JOIN organisation o ON o.organisation_id = b.organisation_id
    LEFT JOIN project p ON p.project_id = b.project_id;
-- Robots that may come in, with the digests of both secrets that count, and their end.
CREATE VIEW audit_robot AS
    SELECT robot_id, told_secret(secret_hash) AS secret, CASE WHEN previous_until > now() THEN told_secret(previous_hash) END AS previous, expires_at
    FROM robot WHERE revoked_at IS NULL AND expires_at > now();

-- The rows of logins that an event tells: the groups of the token, and for a day from the event on. Each entry is looked up by its number.
CREATE VIEW group_login_told AS
    SELECT l.issuer, l.subject, l.groups, l.issued_at, l.until FROM group_login l
    CROSS JOIN LATERAL (SELECT e.ts, e.leaf FROM audit_entry e WHERE e.seq = l.told AND e.action = 'token.mint' AND e.outcome = 'allowed'
                        AND e.leaf_hash = sha256('\x00'::bytea || e.leaf) OFFSET 0) AS e
    WHERE l.until <= to_timestamp(e.ts / 1000.0) + interval '24 hours 1 minute'
    AND position(convert_to(' login=' || told_groups(l.salt, l.issuer, l.subject, l.groups), 'UTF8') IN e.leaf) > 0;
GRANT SELECT ON audit_robot, group_login_told TO sijil_app;

-- Roles and robots whose rows are not what events tell. The gateways believe them no longer: the role that finds them can add to these rows, and take none away.
CREATE TABLE doubted_row (
    id    uuid PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON doubted_row TO sijil_app;
CREATE FUNCTION doubt_row(doubted uuid) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO doubted_row (id) VALUES (doubted) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM raise_authorization_epoch();
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION doubt_row(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION doubt_row(uuid) TO sijil_app;

-- As before (0119), and the salt of a role that an event tells goes with the name.
CREATE OR REPLACE FUNCTION erasure_rename(pseudonym text, old_issuer text, old_subject text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM audit_erasure a WHERE a.pseudonym = erasure_rename.pseudonym AND a.ended IS NULL) THEN
        RAISE EXCEPTION 'this erasure has not begun, or has ended' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM audit_named n WHERE n.pseudonym = erasure_rename.pseudonym;
    UPDATE binding SET subject = 'erased:' || erasure_rename.pseudonym, salt = NULL
        WHERE issuer = old_issuer AND subject = old_subject AND (revoked_at IS NOT NULL OR expires_at <= now());
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;
