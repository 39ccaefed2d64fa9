-- What all runs of a project come to (docs/quotas.md). Triggers keep the sums exact, and the application can only read them. Runs are made, get
-- envelopes and end one after the other under the log's lock, so nobody waits for a row.
CREATE TABLE project_runs (
    project_id uuid PRIMARY KEY REFERENCES project,
    open_runs  bigint NOT NULL CHECK (open_runs >= 0), -- that have not ended
    bytes      bigint NOT NULL CHECK (bytes >= 0)      -- of all their envelopes, also after the end
) WITH (fillfactor = 20);
INSERT INTO project_runs
    SELECT r.project_id, count(*) FILTER (WHERE r.ended_at IS NULL), coalesce(sum(e.bytes), 0) FROM run r
      LEFT JOIN (SELECT run_id, sum(octet_length(envelope)) AS bytes FROM run_envelope GROUP BY run_id) e USING (run_id) GROUP BY r.project_id;
GRANT SELECT ON project_runs TO sijil_app;

CREATE FUNCTION runs_were_made() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO project_runs AS p (project_id, open_runs, bytes)
        SELECT project_id, count(*) FILTER (WHERE ended_at IS NULL), 0 FROM made GROUP BY project_id
        ON CONFLICT (project_id) DO UPDATE SET open_runs = p.open_runs + excluded.open_runs;
    RETURN NULL;
END $$;
CREATE TRIGGER runs_were_made AFTER INSERT ON run REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION runs_were_made();

-- An ended run stays ended (run_stays_ended), so each run is taken off once.
CREATE FUNCTION run_has_ended() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE project_runs SET open_runs = open_runs - 1 WHERE project_id = NEW.project_id;
    RETURN NULL;
END $$;
CREATE TRIGGER run_has_ended AFTER UPDATE OF ended_at ON run FOR EACH ROW WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
    EXECUTE FUNCTION run_has_ended();

CREATE FUNCTION run_envelopes_were_added() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE project_runs p SET bytes = p.bytes + a.bytes
      FROM (SELECT r.project_id, sum(octet_length(m.envelope)) AS bytes FROM made m JOIN run r USING (run_id) GROUP BY r.project_id) a
     WHERE p.project_id = a.project_id;
    RETURN NULL;
END $$;
CREATE TRIGGER run_envelopes_were_added AFTER INSERT ON run_envelope REFERENCING NEW TABLE AS made FOR EACH STATEMENT
    EXECUTE FUNCTION run_envelopes_were_added();
DROP INDEX run_open; -- it was for counting
