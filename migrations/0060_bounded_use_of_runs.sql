-- What attempts have used is a runner's word (docs/quotas.md). The sum stops at 2^53 - 1 ms, so no attempt is too much for it to be ended.
UPDATE run_attempt SET cpu_ms = least(cpu_ms, 9007199254740991), device_ms = least(device_ms, 9007199254740991)
 WHERE ended_at IS NULL AND (cpu_ms > 9007199254740991 OR device_ms > 9007199254740991);
UPDATE project_runs SET cpu_used_ms = least(cpu_used_ms, 9007199254740991), gpu_used_ms = least(gpu_used_ms, 9007199254740991)
 WHERE cpu_used_ms > 9007199254740991 OR gpu_used_ms > 9007199254740991;
CREATE OR REPLACE FUNCTION run_attempt_has_ended() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE project_runs p
       SET cpu_used_ms = least(p.cpu_used_ms::numeric + NEW.cpu_ms, 9007199254740991)::bigint,
           gpu_used_ms = least(p.gpu_used_ms::numeric + NEW.device_ms, 9007199254740991)::bigint
      FROM run r WHERE r.run_id = NEW.run_id AND p.project_id = r.project_id;
    RETURN NULL;
END $$;

-- A doubt that says something else than the withdrawal is replaced (docs/runs.md).
GRANT UPDATE (runner, since, reason, noted_at) ON run_doubt TO sijil_app;
