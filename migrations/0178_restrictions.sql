-- Restrictions of organisations are documents of the kind 15 (documents/format/kinds.def). The log has no event of these actions yet, so the index audit_entry_document stays right.
CREATE OR REPLACE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 WHEN 'runner.approve' THEN 3 WHEN 'runner.revoke' THEN 3
                   WHEN 'rule.approve' THEN 4 WHEN 'rule.revoke' THEN 4 WHEN 'sink.approve' THEN 5 WHEN 'sink.revoke' THEN 5
                   WHEN 'detection.approve' THEN 6 WHEN 'detection.revoke' THEN 6 WHEN 'audit.erase' THEN 7 WHEN 'hold.add' THEN 8
                   WHEN 'hold.release' THEN 8 WHEN 'persons.approve' THEN 9 WHEN 'persons.revoke' THEN 9
                   WHEN 'breakglass.approve' THEN 10 WHEN 'breakglass.end' THEN 10
                   WHEN 'groups.approve' THEN 11 WHEN 'groups.revoke' THEN 11 WHEN 'scim.approve' THEN 12
                   WHEN 'scim.revoke' THEN 12 WHEN 'breakglass.review' THEN 13
                   WHEN 'role.approve' THEN 14 WHEN 'role.revoke' THEN 14
                   WHEN 'restriction.approve' THEN 15 WHEN 'restriction.revoke' THEN 15
                   WHEN 'officers.approve' THEN 16 WHEN 'officers.revoke' THEN 16 END
$$;
