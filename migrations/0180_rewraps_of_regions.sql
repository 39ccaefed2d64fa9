-- A re-wrap of the keys of one region that has a sijil-keyd of its own (docs/region-keyd.md): a gateway that serves the region claims it. A re-wrap without a region
-- is of the keys of the main sijil-keyd, and of the regions whose sijil-keyd its gateway reaches.
ALTER TABLE job
    DROP CONSTRAINT job_check1,
    ADD CONSTRAINT job_region_check CHECK (CASE kind WHEN 'scrub' THEN region_id IS NOT NULL WHEN 'rewrap' THEN true ELSE region_id IS NULL END);
