-- sijil-keyd keeps places for what may follow from an order. It is told when a run has ended, so that the places become free (docs/keys.md).
ALTER TABLE run_draft ADD COLUMN is_freed boolean NOT NULL DEFAULT false;
GRANT UPDATE (is_freed) ON run_draft TO sijil_app;
CREATE INDEX run_draft_kept ON run_draft (run_id) WHERE NOT is_freed;

-- A run that was not tried yet comes first: many that get no place, and are tried again and again, keep nobody waiting.
DROP INDEX run_requested;
CREATE INDEX run_requested ON run (claimed_until, number) WHERE state = 'requested';

-- What a withdrawn runner has made lives on through checkpoints: a run that continues from one counts as that runner's, too. So the run that kept the
-- checkpoint is noted, and the checkpoint itself may be gone by then.
ALTER TABLE run_resume ADD COLUMN source uuid REFERENCES run;
UPDATE run_resume u SET source = (SELECT c.run_id FROM run_checkpoint c WHERE c.digest = u.digest ORDER BY c.kept_at LIMIT 1);
CREATE INDEX run_resume_source ON run_resume (source) WHERE source IS NOT NULL;

-- Whose checkpoints they are is told by the attempts of their run, which nobody can change afterwards, also not with the gateways' role: neither the key,
-- nor when an attempt has ended.
CREATE OR REPLACE FUNCTION run_attempt_stays_ended() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.ended_at IS NOT NULL THEN RAISE EXCEPTION 'attempt % of run % has ended', OLD.attempt, OLD.run_id; END IF;
    IF NEW.ended_at IS NOT NULL THEN NEW.ended_at := now(); END IF;
    RETURN NEW;
END $$;
