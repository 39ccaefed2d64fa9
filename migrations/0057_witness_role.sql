-- The role of programs that watch the log: checkpoints and hashes, and nothing that names anybody. It exists for the whole registry only, because a
-- root covers all events.
ALTER TABLE binding DROP CONSTRAINT binding_role_check;
ALTER TABLE binding ADD CONSTRAINT binding_role_check CHECK (role IN (
    'registry-admin', 'org-admin', 'project-admin', 'publisher', 'promoter', 'consumer', 'trainer', 'auditor',
    'security-officer', 'break-glass', 'witness'));
ALTER TABLE binding ADD CONSTRAINT binding_witness_scope CHECK (role <> 'witness' OR organisation_id IS NULL);
