-- What a lease uploads (docs/runs.md). A blob counts as uploaded only when its bytes were compared with its digest: before that, digest and size
-- are the runner's own words, and could be those of somebody else's blob.
ALTER TABLE run_upload ADD COLUMN is_whole boolean NOT NULL DEFAULT false;
GRANT UPDATE (is_whole) ON run_upload TO sijil_app;
