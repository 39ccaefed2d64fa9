-- The places of an order are regions, and "attested:REGION" where only attested runners, or these too, may have the run: twice as many names.
ALTER TABLE run_draft DROP CONSTRAINT run_draft_regions_check;
ALTER TABLE run_draft ADD CONSTRAINT run_draft_regions_check CHECK (length(regions) BETWEEN 1 AND 163840);
