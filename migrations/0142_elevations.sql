-- Roles for some hours, which a person asks for and another person grants (docs/identity.md). A row that waits gives nothing; what was granted is a binding with an end.
-- Rows go 90 days after the request, and when the person is erased.
CREATE TABLE elevation (
    elevation_id    uuid PRIMARY KEY,
    issuer          text NOT NULL CHECK (length(issuer) BETWEEN 1 AND 255),
    subject         text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
    role            text NOT NULL CHECK (length(role) BETWEEN 1 AND 63 AND role NOT IN ('registry-admin', 'security-officer', 'break-glass', 'witness')),
    organisation_id uuid REFERENCES organisation, -- the scope, as of a binding
    project_id      uuid REFERENCES project,
    pattern         text CHECK (length(pattern) BETWEEN 1 AND 255),
    hours           bigint NOT NULL CHECK (hours BETWEEN 1 AND 72),
    reason          text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    asked_at        timestamptz NOT NULL DEFAULT now(),
    waits_until     timestamptz NOT NULL,
    ended_at        timestamptz,               -- the request was ended, or the role that it gave, before its time
    binding_id      uuid REFERENCES binding,   -- NULL: it was not granted
    decided_by      text CHECK (length(decided_by) BETWEEN 1 AND 79)
);
CREATE INDEX elevation_person ON elevation (issuer, subject);
CREATE INDEX elevation_scope ON elevation (organisation_id, project_id, elevation_id);
CREATE INDEX elevation_over ON elevation (waits_until);
GRANT SELECT, INSERT, DELETE ON elevation TO sijil_app;
GRANT UPDATE (ended_at, binding_id, decided_by) ON elevation TO sijil_app;
