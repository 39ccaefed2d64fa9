-- A project's first quota: its row begins with 0 bytes, and what was there before is added soon after, without the log's lock. Until
-- then the row has the number of that count, so that it is added once, and to no later row of the same project. docs/quotas.md.
ALTER TABLE project_quota ADD COLUMN uncounted uuid;
CREATE INDEX project_quota_uncounted ON project_quota (project_id) WHERE uncounted IS NOT NULL;
GRANT UPDATE (uncounted) ON project_quota TO sijil_app;
