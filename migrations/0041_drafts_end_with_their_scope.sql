-- Drafts of an organisation or a project end with it: a new one of the name must not find them (docs/documents.md).
CREATE OR REPLACE FUNCTION bury_project(uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DELETE FROM document_draft d USING project p JOIN organisation o USING (organisation_id)
     WHERE p.project_id = $1 AND p.deleted_at IS NULL AND d.organisation_id = o.organisation_id AND d.scope = o.name || '/' || p.name;
    UPDATE project p SET deleted_name = o.name || '/' || p.name, name = '#' || p.project_id, deleted_at = now()
      FROM organisation o WHERE o.organisation_id = p.organisation_id AND p.project_id = $1 AND p.deleted_at IS NULL
$$;
CREATE OR REPLACE FUNCTION bury_organisation(uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DELETE FROM document_draft WHERE organisation_id = $1;
    SELECT bury_project(project_id) FROM project WHERE organisation_id = $1 AND deleted_at IS NULL;
    UPDATE organisation SET deleted_name = name, name = '#' || organisation_id, deleted_at = now()
     WHERE organisation_id = $1 AND deleted_at IS NULL
$$;
