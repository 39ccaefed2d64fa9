-- What the application only ever does in one direction, its role can't do in the other: a revocation is not taken back, a label does not
-- fall, and the event of a forgotten key is not exchanged. The owner's hand stays free (docs/audit.md, "What remains trust").

CREATE FUNCTION is_owners_hand(relation oid) RETURNS bool LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT pg_has_role(current_user, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation
$$;

CREATE FUNCTION keep_revoked() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF OLD.revoked_at IS NULL OR NEW.revoked_at IS NOT DISTINCT FROM OLD.revoked_at OR is_owners_hand(TG_RELID) THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'what was revoked stays revoked' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER robot_stays_revoked BEFORE UPDATE OF revoked_at ON robot FOR EACH ROW EXECUTE FUNCTION keep_revoked();
CREATE TRIGGER binding_stays_revoked BEFORE UPDATE OF revoked_at ON binding FOR EACH ROW EXECUTE FUNCTION keep_revoked();

-- label_covers() of policy/label.c, and what registry/project_store.c asks for beside it. NULL, for words that no label has: it falls.
CREATE FUNCTION label_rises(old jsonb, new jsonb) RETURNS bool LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $$
    SELECT old = '{}' OR (
        array_position('{open,confidential,sensitive,secret}', coalesce(new ->> 'class', 'open'))
            >= array_position('{open,confidential,sensitive,secret}', coalesce(old ->> 'class', 'open'))
        AND array_position('{unknown,declared,attested}', coalesce(new ->> 'lineage', 'attested'))
            <= array_position('{unknown,declared,attested}', coalesce(old ->> 'lineage', 'attested'))
        AND (old ? 'lineage' OR coalesce(new ->> 'lineage', 'unknown') = 'unknown')
        AND coalesce(new -> 'subjects', '[]') @> coalesce(old -> 'subjects', '[]')
        AND coalesce(new -> 'attached', '[]') @> coalesce(old -> 'attached', '[]')
        AND new <> '{}')
$$;

CREATE FUNCTION keep_label() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF label_rises(OLD.label, NEW.label) OR is_owners_hand(TG_RELID) THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'a label only rises' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER organisation_label_rises BEFORE UPDATE OF label ON organisation FOR EACH ROW EXECUTE FUNCTION keep_label();
CREATE TRIGGER project_label_rises BEFORE UPDATE OF label ON project FOR EACH ROW EXECUTE FUNCTION keep_label();
CREATE TRIGGER repository_label_rises BEFORE UPDATE OF label ON repository FOR EACH ROW EXECUTE FUNCTION keep_label();

-- Once, and to an event that names this digest and is no other key's.
CREATE UNIQUE INDEX forgotten_key_sequence ON forgotten_key (sequence) WHERE sequence IS NOT NULL;
CREATE FUNCTION keep_forgotten() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF is_owners_hand(TG_RELID) THEN RETURN NEW; END IF;
    IF NEW.claimed_until > clock_timestamp() + interval '2 min' THEN
        RAISE EXCEPTION 'nobody records a forgotten key for so long' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NEW.sequence IS NOT DISTINCT FROM OLD.sequence THEN RETURN NEW; END IF;
    IF OLD.sequence IS NULL AND EXISTS (SELECT FROM audit_entry e WHERE e.seq = NEW.sequence AND e.action = 'key.forgotten'
                                        AND e.outcome = 'allowed' AND position(convert_to(OLD.digest, 'UTF8') IN e.leaf) > 0)
    THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'a forgotten key has one event, which names it' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER forgotten_key_has_its_event BEFORE UPDATE ON forgotten_key FOR EACH ROW EXECUTE FUNCTION keep_forgotten();

-- As 0002, but no further than the log needs: this partition and the next, and one to spare.
CREATE OR REPLACE FUNCTION audit_add_partition(number bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    name  text := 'audit_entry_' || number;
    first bigint := number * 16777216;
BEGIN
    IF number < 0 OR number > (SELECT size / 16777216 + 2 FROM audit_log) OR number > 549755813887 THEN
        RAISE EXCEPTION 'no such partition' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM pg_advisory_xact_lock(7307, 3);
    IF to_regclass(name) IS NOT NULL THEN RETURN; END IF;
    EXECUTE format('CREATE TABLE %I (LIKE audit_entry INCLUDING ALL)', name);
    EXECUTE format('ALTER TABLE audit_entry ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, first, first + 16777216);
END $$;
