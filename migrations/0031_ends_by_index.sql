-- A deletion ends the roles on a repository under the log's lock, where nobody may wait for the other roles of its project.
CREATE INDEX binding_pattern ON binding (project_id, pattern) WHERE revoked_at IS NULL AND pattern IS NOT NULL;
