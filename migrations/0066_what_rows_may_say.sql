-- A runner that was kept for a run of several nodes in vain (docs/runs.md, "Several nodes"): it gets one younger run before it is kept for another one. The row
-- stays until the runner has a lease, also if the run is cancelled: else a trainer could keep a shared pool from everybody by one large run after the other.
CREATE TABLE run_kept (
    key    text PRIMARY KEY CHECK (length(key) = 43),
    run_id uuid NOT NULL REFERENCES run -- the last run that it was kept for
);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_kept TO sijil_app;

-- Gateways look at the leases whose bodies move, and at no list of those that ended.
DROP INDEX run_attempt_ended;

-- A checkpoint is sealed for the run that keeps it, so that its row can't be copied to another run. Those from before opened under any run.
DELETE FROM run_checkpoint;
