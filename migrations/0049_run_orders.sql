-- From a request to its order (docs/runs.md). sijil-keyd signs one order for a request: after a crash the gateway must ask for the very same
-- order again. So all that the order is made from is kept: most of it in the transaction of the event, the checkpoint before keyd is asked.
CREATE TABLE run_draft (
    run_id         uuid PRIMARY KEY REFERENCES run,
    event          bigint NOT NULL CHECK (event >= 0),                  -- the number of the event run.order
    policies       text NOT NULL CHECK (length(policies) = 71),         -- digest of the policy set of its decision
    jurisdictions  text NOT NULL CHECK (length(jurisdictions) BETWEEN 1 AND 527), -- with blanks between them
    regions        text NOT NULL CHECK (length(regions) BETWEEN 1 AND 65536),     -- likewise: where the policies allow the run
    approvals      int NOT NULL CHECK (approvals BETWEEN 0 AND 8),      -- that the policies ask for
    signed_request boolean NOT NULL,
    attempts       int NOT NULL CHECK (attempts BETWEEN 1 AND 100),
    checkpoint     text CHECK (length(checkpoint) BETWEEN 1 AND 2048)   -- the signed note that covers the event, once it is there
);
GRANT SELECT, INSERT, DELETE, UPDATE (checkpoint) ON run_draft TO sijil_app;

ALTER TABLE run ADD COLUMN regions text[] NOT NULL DEFAULT '{}'; -- those of the draft: runners elsewhere don't get it
GRANT UPDATE (regions) ON run TO sijil_app;
CREATE INDEX run_requested ON run (number) WHERE state = 'requested';

-- Gateways look at once for runs that can go on: those that wait for an order, and those that wait for a runner.
CREATE FUNCTION run_tells() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM pg_notify('sijil_run', '');
    RETURN NULL;
END $$;
CREATE TRIGGER run_tells_when_made AFTER INSERT ON run FOR EACH ROW WHEN (NEW.state = 'requested') EXECUTE FUNCTION run_tells();
CREATE TRIGGER run_tells_when_moved AFTER UPDATE OF state ON run FOR EACH ROW
    WHEN (NEW.state IN ('requested', 'ordered') AND OLD.state <> NEW.state) EXECUTE FUNCTION run_tells();
