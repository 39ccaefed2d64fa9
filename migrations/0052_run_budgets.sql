-- Budgets of training runs (docs/quotas.md): seconds of processors and of devices that a project may use, in limits like the other quotas.
ALTER TABLE project_quota
    ADD COLUMN cpu_max     bigint CHECK (cpu_max >= 0),
    ADD COLUMN cpu_ceiling bigint CHECK (cpu_ceiling >= 0),
    ADD COLUMN cpu_own     bigint CHECK (cpu_own >= 0),
    ADD COLUMN gpu_max     bigint CHECK (gpu_max >= 0),
    ADD COLUMN gpu_ceiling bigint CHECK (gpu_ceiling >= 0),
    ADD COLUMN gpu_own     bigint CHECK (gpu_own >= 0);
GRANT UPDATE (cpu_max, cpu_ceiling, cpu_own, gpu_max, gpu_ceiling, gpu_own) ON project_quota TO sijil_app;

-- What an open run has reserved since its order: the most that one attempt can use.
ALTER TABLE run
    ADD COLUMN cpu_reserved_s bigint NOT NULL DEFAULT 0 CHECK (cpu_reserved_s >= 0),
    ADD COLUMN gpu_reserved_s bigint NOT NULL DEFAULT 0 CHECK (gpu_reserved_s >= 0);
GRANT UPDATE (cpu_reserved_s, gpu_reserved_s) ON run TO sijil_app;
CREATE INDEX run_reserving ON run (project_id) INCLUDE (cpu_reserved_s, gpu_reserved_s) WHERE ended_at IS NULL AND cpu_reserved_s > 0;

-- What ended attempts have used, also lost ones. An ended attempt does not change any more (run_attempt_stays_ended), so each counts once.
ALTER TABLE project_runs
    ADD COLUMN cpu_used_ms bigint NOT NULL DEFAULT 0 CHECK (cpu_used_ms >= 0),
    ADD COLUMN gpu_used_ms bigint NOT NULL DEFAULT 0 CHECK (gpu_used_ms >= 0);
UPDATE project_runs p SET cpu_used_ms = a.cpu, gpu_used_ms = a.gpu
  FROM (SELECT r.project_id, sum(t.cpu_ms) AS cpu, sum(t.device_ms) AS gpu FROM run_attempt t JOIN run r USING (run_id)
         WHERE t.ended_at IS NOT NULL GROUP BY r.project_id) a
 WHERE p.project_id = a.project_id;
CREATE FUNCTION run_attempt_has_ended() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE project_runs p SET cpu_used_ms = p.cpu_used_ms + NEW.cpu_ms, gpu_used_ms = p.gpu_used_ms + NEW.device_ms
      FROM run r WHERE r.run_id = NEW.run_id AND p.project_id = r.project_id;
    RETURN NULL;
END $$;
CREATE TRIGGER run_attempt_has_ended AFTER UPDATE OF ended_at ON run_attempt FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION run_attempt_has_ended();
