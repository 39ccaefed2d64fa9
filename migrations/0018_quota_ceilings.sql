-- Who sets a quota: the registry a ceiling, an organisation its own limit below it. What holds is the lower of both, in the columns
-- that are there (docs/quotas.md). Nobody recorded who set the quotas of before, so they are ceilings: only a registry-admin
-- lifts them.
ALTER TABLE project_quota
    ADD COLUMN bytes_ceiling    bigint CHECK (bytes_ceiling >= 0),
    ADD COLUMN sessions_ceiling bigint CHECK (sessions_ceiling BETWEEN 0 AND 100000),
    ADD COLUMN events_ceiling   bigint CHECK (events_ceiling BETWEEN 1 AND 1000000000),
    ADD COLUMN bytes_own        bigint CHECK (bytes_own >= 0),
    ADD COLUMN sessions_own     bigint CHECK (sessions_own BETWEEN 0 AND 100000),
    ADD COLUMN events_own       bigint CHECK (events_own BETWEEN 1 AND 1000000000);
UPDATE project_quota SET bytes_ceiling = bytes_max, sessions_ceiling = sessions_max, events_ceiling = events_max;

GRANT UPDATE (bytes_ceiling, sessions_ceiling, events_ceiling, bytes_own, sessions_own, events_own) ON project_quota TO sijil_app;
