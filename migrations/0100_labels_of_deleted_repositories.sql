-- Labels that runs and manifests have brought take places: of a project, of an organisation, of the registry. The places of a repository that was
-- deleted become free. Until now a row stayed for good, so whoever may push could fill a project, and nobody could empty it.
-- A row goes only if nothing is left that has its label: no repository of that name; no log of a run that wrote into a deleted repository of the
-- project; and, of a row that a run has brought before its first upload, no open run in the project. Rows of deleted projects have no effect.
CREATE FUNCTION forget_brought_labels(organisation uuid) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH gone AS (DELETE FROM run_label l USING project p
        WHERE p.project_id = l.project_id AND p.organisation_id = $1 AND (p.deleted_at IS NOT NULL OR (
            NOT EXISTS (SELECT FROM repository r WHERE r.project_id = l.project_id AND r.name = l.repository)
            AND NOT EXISTS (SELECT FROM run_log g LEFT JOIN repository r USING (repository_id)
                WHERE g.project_id = l.project_id AND g.gone_at IS NULL AND (r.repository_id IS NULL OR r.deleted_at IS NOT NULL))
            AND (l.run_id IS NULL OR NOT EXISTS (SELECT FROM run u WHERE u.project_id = l.project_id AND u.ended_at IS NULL))))
        RETURNING 1)
    SELECT count(*) FROM gone
$$;
REVOKE EXECUTE ON FUNCTION forget_brought_labels(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_brought_labels(uuid) TO sijil_app;
