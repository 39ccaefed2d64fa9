-- What a lease uploads (docs/runs.md). A blob counts as uploaded only when its bytes were compared with its digest: before that, digest and size
-- are the runner's own words, and could be those of somebody else's blob.
ALTER TABLE run_upload ADD COLUMN is_whole boolean NOT NULL DEFAULT false;
GRANT UPDATE (is_whole) ON run_upload TO sijil_app;

-- Open uploads of a lease. Their bytes lie on disk, too, until the attempt ends: so they are counted before they come.
ALTER TABLE run_attempt ADD COLUMN open_bytes bigint NOT NULL DEFAULT 0 CHECK (open_bytes >= 0);
GRANT UPDATE (open_bytes) ON run_attempt TO sijil_app;
CREATE TABLE run_upload_open (
    upload_id      uuid PRIMARY KEY REFERENCES upload ON DELETE CASCADE, -- at a commit, a failure, an expiry
    run_id         uuid NOT NULL,
    attempt        int NOT NULL,
    node           int NOT NULL,
    reserved_bytes bigint NOT NULL CHECK (reserved_bytes >= 0),
    FOREIGN KEY (run_id, attempt, node) REFERENCES run_attempt
);
CREATE INDEX run_upload_open_of ON run_upload_open (run_id, attempt, node);
GRANT SELECT, INSERT, DELETE ON run_upload_open TO sijil_app;
GRANT UPDATE (reserved_bytes) ON run_upload_open TO sijil_app;

CREATE FUNCTION run_upload_has_closed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE run_attempt SET open_bytes = greatest(open_bytes - OLD.reserved_bytes, 0)
     WHERE run_id = OLD.run_id AND attempt = OLD.attempt AND node = OLD.node AND ended_at IS NULL; -- an ended one stays as it ended
    RETURN NULL;
END $$;
CREATE TRIGGER run_upload_has_closed AFTER DELETE ON run_upload_open FOR EACH ROW EXECUTE FUNCTION run_upload_has_closed();
