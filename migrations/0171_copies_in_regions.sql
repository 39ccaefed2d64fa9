-- Copies of a project's content in further regions (docs/replication.md). A copy is a row of `blob` in another region than the project's home, with links of its own.

-- A region that is to have copies. The row goes when the last copy is gone.
CREATE TABLE project_copy (
    project_id     uuid NOT NULL REFERENCES project,
    region_id      text NOT NULL REFERENCES region,
    asked_at       timestamptz NOT NULL DEFAULT now(),
    withdrawn_at   timestamptz,                              -- no copies are wanted any more; those that are there go
    runner         text,                                     -- the gateway that works on it
    lease_until    timestamptz,
    due_at         timestamptz NOT NULL DEFAULT now(),       -- not looked at before
    reviewed_version bigint NOT NULL DEFAULT 0,                -- of names, labels and policies, under which all copies were decided again
    reviewed_at    timestamptz NOT NULL DEFAULT '-infinity',
    -- What the last round found.
    state          text NOT NULL DEFAULT 'new' CHECK (length(state) BETWEEN 1 AND 20),
    why            text NOT NULL DEFAULT '' CHECK (length(why) <= 300),
    waiting_blobs  bigint NOT NULL DEFAULT 0,
    waiting_bytes  bigint NOT NULL DEFAULT 0,
    waiting_since  timestamptz,                              -- when the oldest of them came
    denied_blobs   bigint NOT NULL DEFAULT 0,                -- that a policy does not let in
    PRIMARY KEY (project_id, region_id)
);
CREATE INDEX project_copy_due ON project_copy (due_at);
GRANT SELECT, INSERT, DELETE ON project_copy TO sijil_app;
GRANT UPDATE (asked_at, withdrawn_at, runner, lease_until, due_at, reviewed_version, reviewed_at, state, why, waiting_blobs, waiting_bytes, waiting_since, denied_blobs)
    ON project_copy TO sijil_app;

-- A copy that is being written. Whoever writes has raised writer_epoch; a writer that lost it saves and commits nothing. Its object is in abandoned_object, too.
CREATE TABLE copying (
    blob_id           uuid PRIMARY KEY,                      -- of the copy
    project_id        uuid NOT NULL REFERENCES project,
    region_id         text NOT NULL REFERENCES region,
    digest            text COLLATE "C" NOT NULL CHECK (length(digest) BETWEEN 71 AND 135),
    key_version       integer NOT NULL,
    wrapped_key       bytea NOT NULL CHECK (length(wrapped_key) BETWEEN 1 AND 256),
    commitment        bytea NOT NULL CHECK (length(commitment) = 32),
    writer_epoch      bigint NOT NULL DEFAULT 1,
    sequence          bigint NOT NULL DEFAULT 0,             -- of the last checkpoint; 0: none
    offset_bytes      bigint NOT NULL DEFAULT 0 CHECK (offset_bytes >= 0),
    checkpoint_epoch  bigint NOT NULL DEFAULT 0,
    checkpoint_digest bytea CHECK (length(checkpoint_digest) = 32),
    begun_at          timestamptz NOT NULL DEFAULT now(),
    UNIQUE (project_id, region_id, digest),
    CHECK ((sequence = 0) = (checkpoint_digest IS NULL))
);
GRANT SELECT, INSERT, DELETE ON copying TO sijil_app;
GRANT UPDATE (writer_epoch, sequence, offset_bytes, checkpoint_epoch, checkpoint_digest) ON copying TO sijil_app;
