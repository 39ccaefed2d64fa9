-- What runners bring (docs/runs.md): the blobs that count in the limits of an order, and the logs while runs go on.
ALTER TABLE run_attempt
    ADD COLUMN uploaded_bytes bigint NOT NULL DEFAULT 0 CHECK (uploaded_bytes >= 0),
    ADD COLUMN upload_max     bigint NOT NULL DEFAULT 0,                  -- what the order allows, as it was at the newest blob
    ADD CONSTRAINT run_attempt_uploaded CHECK (uploaded_bytes <= upload_max);
GRANT UPDATE (uploaded_bytes, upload_max) ON run_attempt TO sijil_app;
CREATE INDEX run_attempt_ended ON run_attempt (ended_at); -- gateways look which leases ended lately

-- A blob that a runner has pushed under the token of its lease. The same blob again counts once.
CREATE TABLE run_upload (
    run_id        uuid NOT NULL,
    attempt       int NOT NULL,
    node          int NOT NULL,
    repository    text COLLATE "C" NOT NULL CHECK (length(repository) BETWEEN 1 AND 255), -- its name: the first blob makes the repository
    digest        text COLLATE "C" NOT NULL CHECK (length(digest) BETWEEN 71 AND 135),
    size_bytes    bigint NOT NULL CHECK (size_bytes >= 0),
    PRIMARY KEY (run_id, attempt, node, repository, digest),
    FOREIGN KEY (run_id, attempt, node) REFERENCES run_attempt
);
GRANT SELECT, INSERT ON run_upload TO sijil_app;

-- The log of one node of an attempt, made in the transaction of its event. Its bytes are sealed blobs in the region of the first output's
-- project: only their places and their wrapped keys stand here.
CREATE TABLE run_log (
    run_id        uuid NOT NULL,
    attempt       int NOT NULL,
    node          int NOT NULL,
    repository_id uuid NOT NULL,                                          -- of the first output
    project_id    uuid NOT NULL REFERENCES project,
    region_id     text NOT NULL REFERENCES region,
    bytes         bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    bytes_max     bigint NOT NULL CHECK (bytes_max >= 0),                 -- log_bytes of the order
    pieces_due    timestamptz,                                            -- the pieces are removed from then on; NULL: after the run's end
    gone_at       timestamptz,                                            -- when they were
    PRIMARY KEY (run_id, attempt, node),
    FOREIGN KEY (run_id, attempt, node) REFERENCES run_attempt,
    CHECK (bytes <= bytes_max)
);
CREATE INDEX run_log_kept ON run_log (run_id) WHERE gone_at IS NULL;
GRANT SELECT, INSERT ON run_log TO sijil_app;
GRANT UPDATE (bytes, pieces_due, gone_at) ON run_log TO sijil_app;

-- The object of a piece also stands in abandoned_object, for a day of its own far ahead: so it is removed even if this row gets lost.
CREATE TABLE run_log_piece (
    run_id      uuid NOT NULL,
    attempt     int NOT NULL,
    node        int NOT NULL,
    start       bigint NOT NULL CHECK (start >= 0),                       -- offset of its first byte in the log
    length      int NOT NULL CHECK (length BETWEEN 1 AND 262144),
    blob_id     uuid NOT NULL UNIQUE,
    project_id  uuid NOT NULL REFERENCES project,
    region_id   text NOT NULL REFERENCES region,
    digest      text COLLATE "C" NOT NULL CHECK (length(digest) = 71),    -- over 16 random bytes and the piece: no two are equal
    size_bytes  bigint NOT NULL CHECK (size_bytes > length),
    part        bigint NOT NULL CHECK (part BETWEEN 0 AND 4294967295),
    key_version integer NOT NULL,
    wrapped_key bytea NOT NULL CHECK (length(wrapped_key) BETWEEN 1 AND 256),
    commitment  bytea NOT NULL CHECK (length(commitment) = 32),
    PRIMARY KEY (run_id, attempt, node, start),
    FOREIGN KEY (run_id, attempt, node) REFERENCES run_log
);
GRANT SELECT, INSERT, DELETE ON run_log_piece TO sijil_app;
GRANT UPDATE (length, blob_id, digest, size_bytes, part, key_version, wrapped_key, commitment) ON run_log_piece TO sijil_app;
GRANT UPDATE (abandoned_at) ON abandoned_object TO sijil_app;

-- Who has followed a log: the event run.log is recorded once for each, with this row.
CREATE TABLE run_log_reader (
    run_id    uuid NOT NULL REFERENCES run,
    principal text NOT NULL CHECK (length(principal) BETWEEN 1 AND 79),
    PRIMARY KEY (run_id, principal)
);
GRANT SELECT, INSERT ON run_log_reader TO sijil_app;

-- Tokens of runs are signed by sijil-keyd, too, and each has an event.
DROP INDEX audit_entry_mint;
CREATE INDEX audit_entry_mint ON audit_entry (seq) WHERE action IN ('token.mint', 'run.token') AND outcome = 'allowed';
