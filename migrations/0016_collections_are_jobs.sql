-- A garbage collection is a job like a scrub and a re-wrap: one row, one lease, one list (docs/garbage-collection.md). Ended
-- jobs are pruned, with their findings; that they were is in the log.
ALTER TABLE job
    ADD COLUMN project_id uuid REFERENCES project,             -- collection: of this one alone; NULL: of all
    ADD COLUMN is_dry_run bool NOT NULL DEFAULT false,         -- collection: removes nothing
    ADD COLUMN rules      text CHECK (length(rules) BETWEEN 2 AND 32768),  -- of a dry run: tried instead of the project's
    ADD COLUMN report     text NOT NULL DEFAULT '{}' CHECK (length(report) <= 1048576),
    DROP CONSTRAINT job_kind_check,
    ADD CONSTRAINT job_kind_check CHECK (kind IN ('scrub', 'rewrap', 'collection')),
    ADD CONSTRAINT job_of_project_check CHECK (kind = 'collection' OR (project_id IS NULL AND NOT is_dry_run)),
    ADD CONSTRAINT job_tried_check CHECK (rules IS NULL OR (is_dry_run AND project_id IS NOT NULL));
DROP INDEX job_one_of_a_kind;
CREATE UNIQUE INDEX job_one_of_a_kind ON job (kind, region_id, project_id, is_dry_run) NULLS NOT DISTINCT
    WHERE ended_at IS NULL;
CREATE INDEX job_ended ON job (kind, project_id, is_dry_run, number) WHERE ended_at IS NOT NULL;
ALTER TABLE job_finding
    DROP CONSTRAINT job_finding_job_id_fkey,
    ADD CONSTRAINT job_finding_job_id_fkey FOREIGN KEY (job_id) REFERENCES job ON DELETE CASCADE;

-- Reports that people may still ask for. What was under way is begun again by whoever wants it, or by the clock.
INSERT INTO job (job_id, kind, with_digest, rate_bytes, project_id, is_dry_run, requested_at, started_at, ended_at, outcome,
                 waits_for, phase, report)
    SELECT collection_id, 'collection', false, 0, project_id, is_dry_run, requested_at, begun_at, coalesce(ended_at, now()),
           CASE state WHEN 'done' THEN 'completed' ELSE 'failed' END,
           CASE WHEN state IN ('waiting', 'running') THEN 'interrupted by a new release: begin it again' ELSE '' END,
           3, report
      FROM collection ORDER BY requested_at;
DROP TABLE collection;

GRANT DELETE ON job TO sijil_app;
GRANT UPDATE (report) ON job TO sijil_app;
