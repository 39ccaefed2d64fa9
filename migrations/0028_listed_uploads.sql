-- Open uploads are listed for administrators, by project and by organisation: who began each, and when it last got on. They are
-- counted by organisation, too (docs/quotas.md).
ALTER TABLE upload
    ADD COLUMN issuer          text NOT NULL DEFAULT '',  -- '': a robot of this registry, or begun before it was kept
    ADD COLUMN subject         text NOT NULL DEFAULT '',
    ADD COLUMN moved_at        timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN organisation_id uuid REFERENCES organisation;
UPDATE upload u SET organisation_id = p.organisation_id FROM project p WHERE p.project_id = u.project_id;
ALTER TABLE upload ALTER COLUMN organisation_id SET NOT NULL;
CREATE INDEX upload_organisation ON upload (organisation_id);

GRANT UPDATE (moved_at) ON upload TO sijil_app;
