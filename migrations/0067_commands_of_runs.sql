-- What a run does, for lists: the beginning of its command line. The signed request has all of it; runs from before have none here.
ALTER TABLE run ADD COLUMN command text NOT NULL DEFAULT '' CHECK (octet_length(command) <= 120);
