-- The person behind a robot, and behind who gave a role: four eyes are those of two persons, not of two credentials (docs/identity.md,
-- "Persons"). NULL is nobody. A robot's person is that of who made it, followed to the root when it is made, so that it stays when the
-- maker is revoked.
ALTER TABLE robot ADD COLUMN person text CHECK (person ~ '^(administrator|ext:[0-9a-f]{64})$');
ALTER TABLE binding ADD COLUMN giver text CHECK (giver ~ '^(administrator|ext:[0-9a-f]{64})$');

-- A robot that has another secret than at first may be known to whoever replaced it.
WITH RECURSIVE made AS (
    SELECT robot_id, created_by AS person FROM robot WHERE created_by ~ '^ext:[0-9a-f]{64}$' AND secret_since = created_at
    UNION ALL
    SELECT r.robot_id, made.person FROM robot r JOIN made ON r.created_by = 'robot:' || made.robot_id WHERE r.secret_since = r.created_at
)
UPDATE robot SET person = made.person FROM made WHERE made.robot_id = robot.robot_id;
UPDATE binding SET giver = granted_by WHERE granted_by ~ '^ext:[0-9a-f]{64}$';
UPDATE binding SET giver = robot.person FROM robot WHERE granted_by = 'robot:' || robot.robot_id;

-- What a subject made is that subject's, or nobody's; a robot of the server's own has at most the administrator behind it.
ALTER TABLE robot ADD CONSTRAINT robot_is_of_its_maker CHECK (
    person IS NULL OR created_by LIKE 'robot:%' OR person = created_by OR (person = 'administrator' AND created_by = 'system'));

-- A robot can lose its person, when another one sees its secret. It gets none.
CREATE FUNCTION keep_person() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.person IS NULL OR NEW.person IS NOT DISTINCT FROM OLD.person OR is_owners_hand(TG_RELID) THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'a robot does not become another person''s' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER robot_keeps_its_person BEFORE UPDATE OF person ON robot FOR EACH ROW EXECUTE FUNCTION keep_person();
GRANT UPDATE (person) ON robot TO sijil_app;
