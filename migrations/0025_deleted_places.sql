-- Organisations, projects and repositories can be deleted (docs/deletion.md). The row stays and gives its name away, so that
-- nothing finds it by name any more, its id is never used again, and a new one of that name shares nothing with it. What it
-- held is removed by the garbage collection, a little at a time. Only these functions rename: the gateways can rename nothing else.
ALTER TABLE organisation
    ADD COLUMN deleted_at   timestamptz,
    ADD COLUMN deleted_name text,
    ADD COLUMN born         bigint NOT NULL DEFAULT 0,  -- size of the log when it was made: what is older concerns another one of that name
    DROP CONSTRAINT organisation_name_check,
    ADD CONSTRAINT organisation_name_check CHECK (CASE WHEN deleted_at IS NULL
        THEN name ~ '^[a-z0-9]+([._-][a-z0-9]+)*$' AND length(name) <= 63 AND deleted_name IS NULL
        ELSE name = '#' || organisation_id AND deleted_name IS NOT NULL END);
ALTER TABLE project
    ADD COLUMN deleted_at   timestamptz,
    ADD COLUMN deleted_name text,                       -- in full: "acme/models"
    ADD COLUMN emptied_at   timestamptz,                -- nothing of it is left but this row
    ADD COLUMN born         bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT project_name_check,
    ADD CONSTRAINT project_name_check CHECK (CASE WHEN deleted_at IS NULL
        THEN name ~ '^[a-z0-9]+([._-][a-z0-9]+)*$' AND length(name) <= 63 AND deleted_name IS NULL
        ELSE name = '#' || project_id AND deleted_name IS NOT NULL END);
ALTER TABLE repository
    ADD COLUMN deleted_at   timestamptz,
    ADD COLUMN deleted_name text;                       -- in full: "acme/models/digits"
CREATE INDEX project_deleted ON project (deleted_name, organisation_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX repository_deleted ON repository (project_id, repository_id) WHERE deleted_at IS NOT NULL;

CREATE FUNCTION bury_repository(uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    UPDATE repository SET deleted_name = full_name, name = '#' || repository_id, full_name = '#' || repository_id,
           deleted_at = now() WHERE repository_id = $1 AND deleted_at IS NULL
$$;
CREATE FUNCTION bury_project(uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    UPDATE project p SET deleted_name = o.name || '/' || p.name, name = '#' || p.project_id, deleted_at = now()
      FROM organisation o WHERE o.organisation_id = p.organisation_id AND p.project_id = $1 AND p.deleted_at IS NULL
$$;
CREATE FUNCTION bury_organisation(uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT bury_project(project_id) FROM project WHERE organisation_id = $1 AND deleted_at IS NULL;
    UPDATE organisation SET deleted_name = name, name = '#' || organisation_id, deleted_at = now()
     WHERE organisation_id = $1 AND deleted_at IS NULL
$$;
-- The row of a repository goes once it is empty; that of a project stays, for what was certified of it.
CREATE FUNCTION remove_buried_repository(uuid) RETURNS bool LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH gone AS (DELETE FROM repository r WHERE r.repository_id = $1 AND r.deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM manifest m WHERE m.repository_id = $1)
        AND NOT EXISTS (SELECT FROM repository_blob b WHERE b.repository_id = $1)
        AND NOT EXISTS (SELECT FROM upload u WHERE u.repository_id = $1) RETURNING 1)
    SELECT EXISTS (SELECT FROM gone)
$$;
CREATE FUNCTION empty_buried_project(uuid) RETURNS bool LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM project WHERE project_id = $1 AND deleted_at IS NOT NULL AND emptied_at IS NULL FOR UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM repository WHERE project_id = $1) OR EXISTS (SELECT FROM blob WHERE project_id = $1)
        OR EXISTS (SELECT FROM upload WHERE project_id = $1) THEN RETURN false; END IF;
    DELETE FROM project_key WHERE project_id = $1;
    DELETE FROM project_quota WHERE project_id = $1;
    DELETE FROM project_events WHERE project_id = $1;
    DELETE FROM project_rules WHERE project_id = $1;
    UPDATE project SET emptied_at = now() WHERE project_id = $1;
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION bury_repository(uuid), bury_project(uuid), bury_organisation(uuid), remove_buried_repository(uuid),
    empty_buried_project(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION bury_repository(uuid), bury_project(uuid), bury_organisation(uuid), remove_buried_repository(uuid),
    empty_buried_project(uuid) TO sijil_app;
