-- Organisation > project > repository, and the regions that bytes may be in.
-- Names are unique and never reused for another id while the row lives; rows are never renamed.

CREATE TABLE organisation (
    organisation_id uuid PRIMARY KEY,
    name            text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9]+([._-][a-z0-9]+)*$' AND length(name) <= 63),
    label           jsonb NOT NULL DEFAULT '{}',  -- floor label of everything below
    created_at      timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE region (
    region_id   text PRIMARY KEY CHECK (region_id ~ '^[a-z0-9-]+/[a-z0-9-]+$' AND length(region_id) <= 63),
    region_tag  bytea NOT NULL UNIQUE CHECK (length(region_tag) = 16),  -- first half of SHA-256 of the id
    driver      text NOT NULL CHECK (driver IN ('fs', 's3', 'memory')),
    location    text NOT NULL CHECK (length(location) BETWEEN 1 AND 1024),  -- directory or endpoint and bucket; never a secret
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE project (
    project_id      uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    name            text NOT NULL CHECK (name ~ '^[a-z0-9]+([._-][a-z0-9]+)*$' AND length(name) <= 63),
    home_region     text NOT NULL REFERENCES region,
    label           jsonb NOT NULL DEFAULT '{}',  -- floor label; only rises once something was pushed
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organisation_id, name)
);

CREATE TABLE repository (
    repository_id uuid PRIMARY KEY,
    project_id    uuid NOT NULL REFERENCES project,
    name          text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),  -- the path below the project
    label         jsonb NOT NULL DEFAULT '{}',
    created_at    timestamptz NOT NULL DEFAULT now(),
    UNIQUE (project_id, name)
);

-- One row: every change of organisations, projects, labels, robots, bindings, policies or regions raises it in the
-- same transaction, and the sequencer refuses events that were decided under an older one.
CREATE TABLE authorization_epoch (
    only_row bool PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch    bigint NOT NULL
);
INSERT INTO authorization_epoch (epoch) VALUES (1);

-- Raises the epoch and tells every gateway; called by the changes themselves. The lock waits until whatever holds the
-- epoch still has committed (hold_authorization_epoch).
CREATE FUNCTION raise_authorization_epoch() RETURNS bigint LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(7307, 1);
    SELECT pg_notify('sijil_epoch', '');
    UPDATE authorization_epoch SET epoch = epoch + 1 RETURNING epoch;
$$;

GRANT SELECT, INSERT ON organisation, project, repository, region TO sijil_app;
GRANT UPDATE (label) ON organisation, project, repository TO sijil_app;
GRANT SELECT, UPDATE (epoch) ON authorization_epoch TO sijil_app;
