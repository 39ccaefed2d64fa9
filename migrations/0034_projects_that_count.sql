-- A project is made under the log's lock, where nobody may wait for the rows of projects that were deleted long ago.
CREATE INDEX project_of_organisation ON project (organisation_id) WHERE emptied_at IS NULL;
