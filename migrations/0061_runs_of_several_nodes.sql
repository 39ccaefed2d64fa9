-- Runs of several nodes (docs/runs.md, "Several nodes"). Runners are gathered before anything is signed, so a gathering that fails uses up no attempt.
-- While a run gathers, it is ordered; no row here leases anything.
ALTER TABLE run
    ADD COLUMN gather_until timestamptz NOT NULL DEFAULT 'epoch', -- runners are kept for it until then; once it is gathered: they may take their leases until then
    ADD COLUMN gather_after timestamptz NOT NULL DEFAULT 'epoch', -- not again before: others get the runners meanwhile
    ADD COLUMN gathers      int NOT NULL DEFAULT 0 CHECK (gathers BETWEEN 0 AND 100), -- since the newest attempt; each one waits longer
    ADD COLUMN gathered     boolean NOT NULL DEFAULT false;       -- enough runners are kept
GRANT UPDATE (gather_until, gather_after, gathers, gathered) ON run TO sijil_app;
CREATE INDEX run_waiting_large ON run (pool, number) WHERE state = 'ordered' AND nodes > 1;

-- A runner that waits for a run of several nodes, or could have had it, and how many of them it takes. Runners are kept from younger runs only for a run that
-- has seen enough of them lately: else one that can never begin would keep all.
CREATE TABLE run_share (
    run_id uuid NOT NULL REFERENCES run,
    key    text NOT NULL CHECK (length(key) = 43),
    nodes  int NOT NULL CHECK (nodes BETWEEN 1 AND 256),
    until  timestamptz NOT NULL,                       -- it waits until then, and asks again before; afterwards: it was seen then
    PRIMARY KEY (run_id, key)
);
CREATE INDEX run_share_of_key ON run_share (key);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_share TO sijil_app;
CREATE FUNCTION run_shares_end() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM run_share WHERE run_id = NEW.run_id;
    RETURN NULL;
END $$;
CREATE TRIGGER run_shares_end AFTER UPDATE OF ended_at ON run FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL AND NEW.nodes > 1) EXECUTE FUNCTION run_shares_end();

-- Runners that wait learn at once that they can take their leases.
CREATE TRIGGER run_tells_when_gathered AFTER UPDATE OF gathered ON run FOR EACH ROW
    WHEN (NEW.gathered AND NOT OLD.gathered) EXECUTE FUNCTION run_tells();

-- The barrier of the start: a node that is ready, and where the others reach it.
ALTER TABLE run_attempt
    DROP CONSTRAINT run_attempt_phase_check,
    ADD CONSTRAINT run_attempt_phase_check CHECK (phase IN ('leased', 'fetching', 'waiting', 'running', 'finishing')),
    ADD COLUMN started_at timestamptz,
    ADD COLUMN listen     text CHECK (length(listen) BETWEEN 3 AND 64),
    ADD COLUMN why        text CHECK (length(why) BETWEEN 1 AND 256); -- why another node, or the registry, has ended it
GRANT UPDATE (started_at, listen, why) ON run_attempt TO sijil_app;

-- Each node of an attempt has its result. If the attempt is lost after the result of node 0, the next one has another.
ALTER TABLE run_envelope
    ADD COLUMN attempt int CHECK (attempt BETWEEN 1 AND 100), -- of a result; NULL: it is older than this column
    ADD COLUMN node    int CHECK (node BETWEEN 0 AND 255);
DROP INDEX run_envelope_once;
CREATE UNIQUE INDEX run_envelope_once ON run_envelope (run_id, kind) WHERE kind IN ('order', 'refusal', 'admission');
CREATE UNIQUE INDEX run_envelope_of_node ON run_envelope (run_id, coalesce(attempt, 0), coalesce(node, 0)) WHERE kind IN ('result', 'node result');
