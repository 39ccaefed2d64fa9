-- Who had a job stopped, as a principal's key: officers stop each other's plans of policy sets, and the state of the plan says who it was.
ALTER TABLE job ADD COLUMN stopped_by text CHECK (length(stopped_by) BETWEEN 1 AND 255);
GRANT UPDATE (stopped_by) ON job TO sijil_app;
