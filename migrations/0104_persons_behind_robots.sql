-- Documents of persons are of the kind 9 (documents/format/kinds.def). The log has no event of these actions yet, so the index
-- audit_entry_document stays right.
CREATE OR REPLACE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 WHEN 'runner.approve' THEN 3 WHEN 'runner.revoke' THEN 3
                   WHEN 'rule.approve' THEN 4 WHEN 'rule.revoke' THEN 4 WHEN 'sink.approve' THEN 5 WHEN 'sink.revoke' THEN 5
                   WHEN 'detection.approve' THEN 6 WHEN 'detection.revoke' THEN 6 WHEN 'audit.erase' THEN 7 WHEN 'hold.add' THEN 8
                   WHEN 'hold.release' THEN 8 WHEN 'persons.approve' THEN 9 WHEN 'persons.revoke' THEN 9
                   WHEN 'groups.approve' THEN 11 WHEN 'groups.revoke' THEN 11 END
$$;

-- Everybody who made a robot or has seen a secret of it, each with the issuer, because subjects of different issuers may be one person
-- (docs/identity.md, "Persons"). `person` stays: it is the only person, or NULL.
ALTER TABLE robot ADD COLUMN behind text[] NOT NULL DEFAULT '{}' CHECK (cardinality(behind) <= 32 AND array_position(behind, NULL) IS NULL);
ALTER TABLE binding ADD COLUMN giver_issuer text CHECK (length(giver_issuer) BETWEEN 1 AND 255);

-- A live or an ended role tells the issuer of a subject. Without one it is not known, and then the subject is no second person.
WITH known AS (SELECT DISTINCT 'ext:' || encode(sha256(convert_to(issuer || E'\n' || subject, 'UTF8')), 'hex') AS person, issuer
               FROM binding WHERE issuer IS NOT NULL)
UPDATE robot SET behind = CASE WHEN person IS NULL THEN '{unknown}'
    ELSE ARRAY[concat_ws(' ', person, (SELECT issuer FROM known k WHERE k.person = robot.person))] END;
WITH known AS (SELECT DISTINCT 'ext:' || encode(sha256(convert_to(issuer || E'\n' || subject, 'UTF8')), 'hex') AS person, issuer
               FROM binding WHERE issuer IS NOT NULL)
UPDATE binding SET giver_issuer = k.issuer FROM known k WHERE k.person = giver;

-- Nobody is taken away from behind a robot.
CREATE FUNCTION keep_persons_behind() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.behind @> OLD.behind OR is_owners_hand(TG_RELID) THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'who made a robot, or has seen its secret, stays behind it' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER robot_keeps_who_is_behind BEFORE UPDATE OF behind ON robot FOR EACH ROW EXECUTE FUNCTION keep_persons_behind();
GRANT UPDATE (behind) ON robot TO sijil_app;
