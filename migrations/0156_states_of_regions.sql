-- What is so of a region beyond its place (docs/regions.md): the mark that its store must have, and why no bytes go there any more. Each change raises
-- the authorization epoch, so decisions of before are made again.
ALTER TABLE region
    ADD COLUMN mark              text CHECK (mark ~ '^[0-9a-f]{32}$'),                    -- of the store that was first found; NULL: none was read yet
    ADD COLUMN draining_since    timestamptz,                                             -- no new bytes since then
    ADD COLUMN quarantined_since timestamptz,                                             -- no bytes at all since then
    ADD COLUMN quarantined_for   text CHECK (length(quarantined_for) BETWEEN 1 AND 600),  -- what disagreed with the record
    ADD COLUMN quarantined_epoch bigint CHECK (quarantined_epoch >= 0),                   -- of the policy set that had the record
    ADD COLUMN retired_at        timestamptz,                                             -- nothing is there any more
    ADD CONSTRAINT region_quarantine CHECK ((quarantined_since IS NULL) = (quarantined_for IS NULL)
                                            AND (quarantined_since IS NULL) = (quarantined_epoch IS NULL)),
    ADD CONSTRAINT region_retired CHECK (retired_at IS NULL OR draining_since IS NOT NULL);
GRANT UPDATE (mark, draining_since, quarantined_since, quarantined_for, quarantined_epoch, retired_at) ON region TO sijil_app;
