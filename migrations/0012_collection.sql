-- Runs of the garbage collection: asked for by a person or begun by the clock, done by any gateway, gone on with by
-- another one when that dies (docs/garbage-collection.md).
CREATE TABLE collection (
    collection_id uuid PRIMARY KEY,
    project_id    uuid REFERENCES project,               -- NULL: all projects
    is_dry_run    bool NOT NULL,
    rules         text CHECK (length(rules) BETWEEN 2 AND 32768),  -- of a dry run: to be tried instead of the project's
    state         text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'done', 'failed')),
    requested_at  timestamptz NOT NULL DEFAULT now(),
    begun_at      timestamptz,
    ended_at      timestamptz,
    runner        uuid,                                  -- who does it
    beat_at       timestamptz,                           -- when it last said so
    report        text NOT NULL DEFAULT '{}' CHECK (length(report) <= 1048576)
);
CREATE INDEX collection_open ON collection (requested_at) WHERE state IN ('waiting', 'running');
CREATE INDEX collection_requested ON collection (requested_at, collection_id);

GRANT SELECT, INSERT, DELETE ON collection TO sijil_app;
GRANT UPDATE (state, begun_at, ended_at, runner, beat_at, report) ON collection TO sijil_app;
