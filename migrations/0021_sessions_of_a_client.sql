-- Open uploads of one client (subject and credential) in a project: a quota of their own, with a ceiling like the others
-- (docs/quotas.md).
ALTER TABLE project_quota
    ADD COLUMN client_sessions_max     bigint CHECK (client_sessions_max BETWEEN 0 AND 100000),
    ADD COLUMN client_sessions_ceiling bigint CHECK (client_sessions_ceiling BETWEEN 0 AND 100000),
    ADD COLUMN client_sessions_own     bigint CHECK (client_sessions_own BETWEEN 0 AND 100000);

GRANT UPDATE (client_sessions_max, client_sessions_ceiling, client_sessions_own) ON project_quota TO sijil_app;
