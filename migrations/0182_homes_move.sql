-- A project's home moves to another region (docs/replication.md, "Another home"). `to`: this region becomes the home as soon as all content is there. `from`: it was the
-- home; what is there goes. NULL: copies.
ALTER TABLE project_copy ADD COLUMN move text CHECK (move IN ('to', 'from'));
CREATE UNIQUE INDEX project_copy_one_move ON project_copy (project_id) WHERE move = 'to' AND withdrawn_at IS NULL;
GRANT UPDATE (move) ON project_copy TO sijil_app;

GRANT UPDATE (home_region) ON project TO sijil_app;
CREATE FUNCTION home_moves_as_asked() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM project_copy WHERE project_id = NEW.project_id AND region_id = NEW.home_region AND move = 'to' AND withdrawn_at IS NULL) THEN
        RAISE EXCEPTION 'nobody has asked for this home of project %', NEW.project_id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER home_moves_as_asked BEFORE UPDATE OF home_region ON project
    FOR EACH ROW WHEN (OLD.home_region <> NEW.home_region) EXECUTE FUNCTION home_moves_as_asked();

-- A manifest is sealed again, under the key of the new home; its digest stays. A key that nothing needs any more goes.
GRANT UPDATE (key_id, sealed) ON manifest, run_checkpoint, held_manifest TO sijil_app;
GRANT UPDATE (is_current) ON project_key TO sijil_app;
GRANT DELETE ON project_key TO sijil_app;
CREATE FUNCTION sealed_under_a_newer_key() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF octet_length(NEW.sealed) <> octet_length(OLD.sealed) OR NOT EXISTS (SELECT FROM project_key n JOIN project_key o USING (project_id)
        WHERE n.key_id = NEW.key_id AND o.key_id = OLD.key_id AND n.region_id <> o.region_id AND n.is_current) THEN
        RAISE EXCEPTION 'a manifest is sealed again under the key of the home alone' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER sealed_under_a_newer_key BEFORE UPDATE OF key_id, sealed ON manifest FOR EACH ROW EXECUTE FUNCTION sealed_under_a_newer_key();
CREATE TRIGGER sealed_under_a_newer_key BEFORE UPDATE OF key_id, sealed ON run_checkpoint FOR EACH ROW EXECUTE FUNCTION sealed_under_a_newer_key();
CREATE TRIGGER sealed_under_a_newer_key BEFORE UPDATE OF key_id, sealed ON held_manifest FOR EACH ROW EXECUTE FUNCTION sealed_under_a_newer_key();
CREATE FUNCTION current_key_stays() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.is_current AND NOT EXISTS (SELECT FROM project WHERE project_id = OLD.project_id AND deleted_at IS NOT NULL) THEN
        RAISE EXCEPTION 'the key of the manifests of a project stays' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER current_key_stays BEFORE DELETE ON project_key FOR EACH ROW EXECUTE FUNCTION current_key_stays();
