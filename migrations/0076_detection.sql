-- Rules that watch the log are documents of the kind 6 (documents/format/kinds.def). The log has no event of these actions yet, so the index
-- audit_entry_document stays right.
CREATE OR REPLACE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 WHEN 'runner.approve' THEN 3 WHEN 'runner.revoke' THEN 3
                   WHEN 'rule.approve' THEN 4 WHEN 'rule.revoke' THEN 4 WHEN 'sink.approve' THEN 5 WHEN 'sink.revoke' THEN 5
                   WHEN 'detection.approve' THEN 6 WHEN 'detection.revoke' THEN 6 END
$$;

-- How far the rules have looked: all alarms of events before `at` are recorded, and `done` of those of the event `at`. A row appears when a
-- gateway begins to watch.
CREATE TABLE audit_detection (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    at       bigint NOT NULL CHECK (at >= 0),
    done     int NOT NULL DEFAULT 0 CHECK (done >= 0)
);
GRANT SELECT, INSERT, UPDATE (at, done) ON audit_detection TO sijil_app;
