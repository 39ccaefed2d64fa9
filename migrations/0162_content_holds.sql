-- Legal holds of content (docs/deletion.md, "Legal holds"). While one is in force nothing removes a manifest of its scope: no client, no collection, no deletion of what
-- it is in, and no end of retention. One person sets it; two different ones release it. A gateway can't remove a row, or end a hold that only one has released.
CREATE TABLE content_hold (
    hold_id          uuid PRIMARY KEY,
    organisation_id  uuid NOT NULL REFERENCES organisation,
    project_id       uuid REFERENCES project,                                -- NULL: the whole organisation
    repository       text COLLATE "C" CHECK (length(repository) BETWEEN 1 AND 255), -- its full name; NULL: the whole project
    reason           text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    set_by           text NOT NULL CHECK (length(set_by) BETWEEN 1 AND 79),
    set_at           timestamptz NOT NULL DEFAULT now(),
    release_reason   text CHECK (length(release_reason) BETWEEN 1 AND 500),
    release_asked_by text CHECK (length(release_asked_by) BETWEEN 1 AND 79),
    release_asked_at timestamptz,
    released_by      text CHECK (length(released_by) BETWEEN 1 AND 79),
    released_at      timestamptz,
    CHECK (repository IS NULL OR project_id IS NOT NULL),
    CHECK ((release_asked_at IS NULL) = (release_asked_by IS NULL) AND (release_asked_at IS NULL) = (release_reason IS NULL)),
    CHECK ((released_at IS NULL) = (released_by IS NULL)),
    CHECK (released_by IS NULL OR (release_asked_by IS NOT NULL AND released_by <> release_asked_by))
);
CREATE INDEX content_hold_scope ON content_hold (organisation_id, project_id, hold_id);
CREATE INDEX content_hold_in_force ON content_hold (organisation_id) WHERE released_at IS NULL;
GRANT SELECT, INSERT ON content_hold TO sijil_app;
GRANT UPDATE (release_reason, release_asked_by, release_asked_at, released_by, released_at) ON content_hold TO sijil_app;
