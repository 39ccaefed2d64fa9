-- Work that goes over everything and takes hours: a scrub of a region's bytes, a re-wrap of all keys. Any gateway takes a
-- job up whose lease has ended, and goes on where the row says; what a runner writes names the runner_epoch that it
-- claimed, so one that lost the lease changes no row. Docs: docs/scrubbing.md, docs/keys.md.
CREATE TABLE job (
    job_id       uuid PRIMARY KEY,
    number       bigint GENERATED ALWAYS AS IDENTITY UNIQUE,  -- the order of lists
    kind         text NOT NULL CHECK (kind IN ('scrub', 'rewrap')),
    region_id    text REFERENCES region,                      -- scrub: whose bytes; a re-wrap moves no bytes
    with_digest  bool NOT NULL,                               -- scrub: the content is hashed, too
    rate_bytes   bigint NOT NULL CHECK (rate_bytes >= 0),     -- scrub: bytes that are read in a second at most
    requested_at timestamptz NOT NULL DEFAULT now(),
    -- How far it is. `phase` is one of registry/job.h; what is before the cursor was done.
    phase        integer NOT NULL DEFAULT 0,
    cursor_id    uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    cursor_text  text COLLATE "C" NOT NULL DEFAULT '',
    cursor_bytes bigint NOT NULL DEFAULT 0,
    done_count   bigint NOT NULL DEFAULT 0,
    done_bytes   bigint NOT NULL DEFAULT 0,
    total_count  bigint NOT NULL DEFAULT 0,
    total_bytes  bigint NOT NULL DEFAULT 0,
    found_count  bigint NOT NULL DEFAULT 0,
    waits_for    text NOT NULL DEFAULT '' CHECK (length(waits_for) <= 300),
    -- Who does it.
    runner       text NOT NULL DEFAULT '',
    runner_epoch bigint NOT NULL DEFAULT 0,
    lease_until  timestamptz,
    stop_wanted  bool NOT NULL DEFAULT false,
    started_at   timestamptz,
    ended_at     timestamptz,
    outcome      text CHECK (outcome IN ('completed', 'stopped', 'failed')),
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK ((kind = 'scrub') = (region_id IS NOT NULL))
);
CREATE UNIQUE INDEX job_one_of_a_kind ON job (kind, region_id) NULLS NOT DISTINCT WHERE ended_at IS NULL;

-- What a scrub found, once each, with its event in the log.
CREATE TABLE job_finding (
    job_id   uuid NOT NULL REFERENCES job,
    number   bigint GENERATED ALWAYS AS IDENTITY,
    kind     text NOT NULL CHECK (kind IN ('damaged', 'missing', 'unreadable', 'key', 'manifest', 'stray')),
    subject  text COLLATE "C" NOT NULL CHECK (length(subject) <= 300),  -- an object's name, or repository and digest
    name     text NOT NULL CHECK (length(name) <= 255),                 -- project or repository; '' for a stray
    digest   text NOT NULL CHECK (length(digest) <= 135),
    detail   text NOT NULL CHECK (length(detail) <= 400),
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, kind, subject)
);
CREATE INDEX job_finding_number ON job_finding (job_id, number);

GRANT SELECT, INSERT ON job, job_finding TO sijil_app;
GRANT UPDATE (phase, cursor_id, cursor_text, cursor_bytes, done_count, done_bytes, total_count, total_bytes, found_count,
              waits_for, runner, runner_epoch, lease_until, stop_wanted, started_at, ended_at, outcome) ON job TO sijil_app;

-- A re-wrap changes the wrapped key where it stands.
GRANT UPDATE (key_version, wrapped_key) ON project_key, upload TO sijil_app;
