-- Repositories whose content lies at home where the policies do not let it be any more: nothing of it is read there (docs/policies.md, "Content out of place"). A gateway adds and
-- takes away rows in the transactions of events.
CREATE TABLE misplaced_content (
    repository_id uuid PRIMARY KEY REFERENCES repository ON DELETE CASCADE,
    region_id     text NOT NULL REFERENCES region,                             -- the home, when it was found
    operation     text NOT NULL CHECK (operation IN ('ingest', 'metadata', 'log')),
    rule          text NOT NULL CHECK (length(rule) BETWEEN 1 AND 64),         -- that denies it, with its policy
    policy        text NOT NULL CHECK (length(policy) BETWEEN 1 AND 79),
    set_epoch     bigint NOT NULL CHECK (set_epoch >= 0),                      -- of the policy set that was asked
    found_at      timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON misplaced_content TO sijil_app;

-- How far the look through all repositories is: one gateway at a time, page by page, by id.
CREATE TABLE placement_review (
    is_one       boolean PRIMARY KEY DEFAULT true CHECK (is_one),
    runner       text CHECK (length(runner) BETWEEN 1 AND 255),
    lease_until  timestamptz,
    version      bigint NOT NULL DEFAULT 0,     -- of names, labels and policies, of the look that goes on or was the last one
    restrictions bigint NOT NULL DEFAULT 0,     -- stands for those of organisations
    after        uuid,                          -- the last repository that was looked at; NULL: the look has ended
    began_at     timestamptz NOT NULL DEFAULT '-infinity',
    done_version bigint NOT NULL DEFAULT 0      -- of the last look that has ended
);
INSERT INTO placement_review DEFAULT VALUES;
GRANT SELECT, UPDATE ON placement_review TO sijil_app;
