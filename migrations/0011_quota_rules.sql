-- Quotas and rules of projects, and what garbage collection asks: docs/quotas.md, docs/garbage-collection.md.

-- A project without a row has no quota, and its pushes pay nothing for those of others. bytes_used is exact: whatever adds
-- or removes bytes changes it in the same statement, under the log's lock, where nobody waits for it.
CREATE TABLE project_quota (
    project_id   uuid PRIMARY KEY REFERENCES project,
    bytes_max    bigint CHECK (bytes_max >= 0),          -- NULL: no limit
    bytes_used   bigint NOT NULL,                        -- blobs, manifests, and what open uploads have reserved
    sessions_max bigint CHECK (sessions_max BETWEEN 0 AND 100000),  -- NULL: as for all projects
    events_max   bigint CHECK (events_max BETWEEN 1 AND 1000000000)  -- recorded requests a minute; NULL: no limit
) WITH (fillfactor = 20);

-- Requests of the running minute, taken in portions by the gateways. A table of its own: who takes a portion must not
-- wait for whoever counts bytes, nor make it wait.
CREATE TABLE project_events (
    project_id uuid PRIMARY KEY REFERENCES project,
    minute     bigint NOT NULL,                          -- since 1970
    taken      bigint NOT NULL
) WITH (fillfactor = 20);

ALTER TABLE upload ADD COLUMN reserved_bytes byte_count NOT NULL DEFAULT 0;  -- of its project's quota

-- What a project keeps, and what nobody may move or remove: one document, replaced as a whole.
CREATE TABLE project_rules (
    project_id             uuid PRIMARY KEY REFERENCES project,
    version                bigint NOT NULL,              -- raised by each change
    document               text NOT NULL CHECK (length(document) BETWEEN 2 AND 32768),
    immutable_repositories text[] NOT NULL,              -- patterns of LIKE, side by side with
    immutable_tags         text[] NOT NULL,
    changed_at             timestamptz NOT NULL DEFAULT now(),
    CHECK (cardinality(immutable_repositories) = cardinality(immutable_tags))
);

CREATE FUNCTION tag_is_immutable(repository uuid, tag text) RETURNS bool LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM repository r JOIN project_rules p USING (project_id)
          CROSS JOIN LATERAL unnest(p.immutable_repositories, p.immutable_tags) AS i (repositories, tags)
         WHERE r.repository_id = $1 AND r.name LIKE i.repositories AND $2 LIKE i.tags)
$$;

-- Pushed again: as fresh as a new one, so that what is about to refer to it finds it.
ALTER TABLE manifest ADD COLUMN renewed_at timestamptz NOT NULL DEFAULT now();

-- When a manifest was asked for last, to an hour. A hint, written in the background; without a key to `manifest`, so
-- that it never waits for a change there.
CREATE TABLE manifest_use (
    repository_id uuid NOT NULL,
    digest        text COLLATE "C" NOT NULL,
    used_at       timestamptz NOT NULL,
    PRIMARY KEY (repository_id, digest)
);

GRANT SELECT, INSERT, DELETE ON project_quota, project_events, project_rules, manifest_use TO sijil_app;
GRANT UPDATE (bytes_max, bytes_used, sessions_max, events_max) ON project_quota TO sijil_app;
GRANT UPDATE (minute, taken) ON project_events TO sijil_app;
GRANT UPDATE (version, document, immutable_repositories, immutable_tags, changed_at) ON project_rules TO sijil_app;
GRANT UPDATE (used_at) ON manifest_use TO sijil_app;
GRANT UPDATE (reserved_bytes) ON upload TO sijil_app;
GRANT UPDATE (renewed_at) ON manifest TO sijil_app;
