-- Sinks of the log are documents of the kind 5 (documents/format/kinds.def). The log has no event of these actions yet, so the index
-- audit_entry_document stays right.
CREATE OR REPLACE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 WHEN 'runner.approve' THEN 3 WHEN 'runner.revoke' THEN 3
                   WHEN 'rule.approve' THEN 4 WHEN 'rule.revoke' THEN 4 WHEN 'sink.approve' THEN 5 WHEN 'sink.revoke' THEN 5 END
$$;

-- How far each sink has got. A row outlives versions of the sink's document; a sink that was withdrawn and comes back goes on where it was.
CREATE TABLE audit_sink (
    name       text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 63),
    first      bigint NOT NULL CHECK (first >= 0),   -- the number of the first event that it gets
    next       bigint NOT NULL CHECK (next >= first), -- all events before this number were taken by the peer
    moved_at   timestamptz NOT NULL DEFAULT now(),
    stopped_at timestamptz,                          -- since when the peer takes nothing, and an event says so; NULL: it takes
    problem    text NOT NULL DEFAULT '' CHECK (length(problem) <= 300),
    secret     int NOT NULL DEFAULT 0 CHECK (secret >= 0), -- the number of the key that signs; its key is a row of audit_subject
    renewed_at timestamptz                           -- when this key replaced the one before, which signs beside it for a day
);
GRANT SELECT, INSERT, UPDATE ON audit_sink TO sijil_app;
