-- The catalog lists repositories by their full names, in byte order, a page at a time. Names are made of three tables, and
-- no index reaches over those, so the full name is kept; nothing is ever renamed.
ALTER TABLE repository ADD COLUMN full_name text COLLATE "C";
UPDATE repository r SET full_name = o.name || '/' || p.name || '/' || r.name
  FROM project p JOIN organisation o USING (organisation_id) WHERE p.project_id = r.project_id;
ALTER TABLE repository ALTER COLUMN full_name SET NOT NULL;
CREATE INDEX repository_full_name ON repository (full_name);

-- By the database, so that a gateway of the version before this one makes repositories as well.
CREATE FUNCTION set_repository_full_name() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT o.name || '/' || p.name || '/' || NEW.name INTO NEW.full_name
      FROM project p JOIN organisation o USING (organisation_id) WHERE p.project_id = NEW.project_id;
    RETURN NEW;
END
$$;
CREATE TRIGGER repository_names BEFORE INSERT ON repository
    FOR EACH ROW EXECUTE FUNCTION set_repository_full_name();
