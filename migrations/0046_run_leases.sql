-- Training runs after their order (docs/runs.md): what a run needs of a runner, its attempts, and the runners that ask for work.
ALTER TABLE run
    DROP CONSTRAINT run_state_check,
    DROP CONSTRAINT run_check,
    ADD CONSTRAINT run_state_check CHECK (state IN ('awaiting approval', 'requested', 'ordered', 'leased', 'running', 'finishing',
                                                    'succeeded', 'failed', 'cancelled', 'expired', 'refused', 'quarantined')),
    ADD CONSTRAINT run_ended CHECK ((ended_at IS NOT NULL) =
                                    (state IN ('succeeded', 'failed', 'cancelled', 'expired', 'refused', 'quarantined'))),
    ADD COLUMN reason text CHECK (length(reason) BETWEEN 1 AND 256),                  -- why it ended so
    -- From the order, and 0 or empty before it.
    ADD COLUMN attempts      int NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 100),  -- leases with a higher attempt are refused
    ADD COLUMN nodes         int NOT NULL DEFAULT 1 CHECK (nodes BETWEEN 1 AND 256),
    ADD COLUMN time_s        bigint NOT NULL DEFAULT 0,                                  -- how long an attempt may run, with its grace
    ADD COLUMN cpus          bigint NOT NULL DEFAULT 0,
    ADD COLUMN memory_bytes  bigint NOT NULL DEFAULT 0,
    ADD COLUMN isolation     int NOT NULL DEFAULT 0,                                     -- rank; 0 is the weakest
    ADD COLUMN assurance     int NOT NULL DEFAULT 0,
    ADD COLUMN jurisdictions text[] NOT NULL DEFAULT '{}',
    ADD COLUMN devices       bigint NOT NULL DEFAULT 0,
    ADD COLUMN device_type   text NOT NULL DEFAULT '',
    ADD COLUMN device_mig    text NOT NULL DEFAULT '',
    ADD COLUMN device_memory bigint NOT NULL DEFAULT 0,
    -- The newest attempt; 0 before the first.
    ADD COLUMN attempt       int NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND attempts),
    -- A gateway that gets a lease for one runner keeps others away for seconds. No more than that: the row of the attempt counts.
    ADD COLUMN claimed_by    text NOT NULL DEFAULT '',
    ADD COLUMN claimed_until timestamptz NOT NULL DEFAULT 'epoch';
CREATE INDEX run_waiting ON run (pool, number) WHERE state = 'ordered';
GRANT UPDATE (reason, attempts, nodes, time_s, cpus, memory_bytes, isolation, assurance, jurisdictions, devices, device_type, device_mig,
              device_memory, attempt, claimed_by, claimed_until, expires_at) ON run TO sijil_app;

-- A lease of one node of one attempt to one runner's key, and what its runner said since.
CREATE TABLE run_attempt (
    run_id       uuid NOT NULL REFERENCES run,
    attempt      int NOT NULL CHECK (attempt BETWEEN 1 AND 100),
    node         int NOT NULL CHECK (node BETWEEN 0 AND 255),
    runner       uuid NOT NULL,
    key          text NOT NULL CHECK (length(key) = 43),          -- thumbprint of the runner's key
    session      bytea NOT NULL CHECK (length(session) = 16),
    lease        text CHECK (length(lease) BETWEEN 1 AND 131072), -- the envelope, once sijil-keyd has signed it
    phase        text NOT NULL DEFAULT 'leased' CHECK (phase IN ('leased', 'fetching', 'running', 'finishing')),
    progress     int CHECK (progress BETWEEN 0 AND 100),
    cpu_ms       bigint NOT NULL DEFAULT 0 CHECK (cpu_ms >= 0),
    device_ms    bigint NOT NULL DEFAULT 0 CHECK (device_ms >= 0),
    memory_bytes bigint NOT NULL DEFAULT 0 CHECK (memory_bytes >= 0),
    leased_at    timestamptz NOT NULL DEFAULT now(),
    heard_at     timestamptz NOT NULL DEFAULT now(),
    deadline     timestamptz NOT NULL,                            -- the attempt is lost if nothing is heard until then
    ends_at      timestamptz NOT NULL,                            -- of the lease
    ended_at     timestamptz,
    outcome      text CHECK (outcome IN ('lost', 'finished', 'refused', 'stopped')),
    PRIMARY KEY (run_id, attempt, node),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX run_attempt_due ON run_attempt (deadline) WHERE ended_at IS NULL;
CREATE INDEX run_attempt_of_key ON run_attempt (key) WHERE ended_at IS NULL;
GRANT SELECT, INSERT ON run_attempt TO sijil_app;
GRANT UPDATE (lease, phase, progress, cpu_ms, device_ms, memory_bytes, heard_at, deadline, ended_at, outcome) ON run_attempt TO sijil_app;
CREATE FUNCTION run_attempt_stays_ended() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.ended_at IS NOT NULL THEN RAISE EXCEPTION 'attempt % of run % has ended', OLD.attempt, OLD.run_id; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER run_attempt_stays_ended BEFORE UPDATE ON run_attempt FOR EACH ROW EXECUTE FUNCTION run_attempt_stays_ended();

-- The newest session of each runner's key, by the generation of the runner's own journal.
CREATE TABLE run_session (
    key          text PRIMARY KEY CHECK (length(key) = 43),
    runner       uuid NOT NULL,
    session      bytea NOT NULL CHECK (length(session) = 16),
    generation   bigint NOT NULL CHECK (generation >= 0),
    heard_at     timestamptz NOT NULL DEFAULT now(),
    suspended_at timestamptz,
    suspended    text CHECK (length(suspended) BETWEEN 1 AND 256), -- why
    CHECK ((suspended_at IS NULL) = (suspended IS NULL))
);
GRANT SELECT, INSERT ON run_session TO sijil_app;
GRANT UPDATE (session, generation, heard_at, suspended_at, suspended) ON run_session TO sijil_app;
CREATE FUNCTION run_session_stays_suspended() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.suspended_at IS NOT NULL THEN RAISE EXCEPTION 'the runner key % is suspended', OLD.key; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER run_session_stays_suspended BEFORE UPDATE ON run_session FOR EACH ROW EXECUTE FUNCTION run_session_stays_suspended();

-- 'late': a result that came after the end of its lease, or a second one. It is kept, and nothing follows from it.
ALTER TABLE run_envelope
    DROP CONSTRAINT run_envelope_kind_check,
    DROP CONSTRAINT run_envelope_run_id_kind_principal_key,
    ADD CONSTRAINT run_envelope_kind_check
        CHECK (kind IN ('request', 'approval', 'order', 'refusal', 'result', 'admission', 'node result', 'late'));
CREATE UNIQUE INDEX run_envelope_of_person ON run_envelope (run_id, kind, principal) WHERE kind IN ('request', 'approval');
CREATE UNIQUE INDEX run_envelope_once ON run_envelope (run_id, kind) WHERE kind IN ('order', 'refusal', 'result', 'admission');
