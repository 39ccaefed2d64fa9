-- Objects that a bucket does not hold whole yet: what any gateway needs to go on with an upload, or to end it.
-- Rows go when the object is whole or the blob is removed (storage/part_list.h).

-- Extents of blobs in buckets: never the same number for two writers of a blob, also after all rows of it have gone. A
-- number comes again after four billion uploads, when no writer of that time is left.
CREATE SEQUENCE bucket_extent AS bigint MINVALUE 0 MAXVALUE 4294967295 CYCLE;

CREATE TABLE multipart (
    blob_id    uuid NOT NULL,
    extent     bigint NOT NULL CHECK (extent BETWEEN 0 AND 4294967295),
    segment    integer NOT NULL CHECK (segment >= 0),   -- a long extent is several objects
    upload_id  text NOT NULL CHECK (length(upload_id) BETWEEN 1 AND 1024),  -- the bucket's name for it
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (blob_id, extent, segment)
);

-- Bytes that are safe: parts of a multipart upload, and those that were too few for one and are objects of their own.
CREATE TABLE multipart_piece (
    blob_id     uuid NOT NULL,
    extent      bigint NOT NULL CHECK (extent BETWEEN 0 AND 4294967295),
    segment     integer NOT NULL CHECK (segment >= 0),
    place       bigint NOT NULL CHECK (place >= 0),               -- in the extent
    size_bytes  bigint NOT NULL CHECK (size_bytes > 0),
    part_number integer NOT NULL CHECK (part_number BETWEEN 0 AND 10000),  -- 0: an object of its own
    etag        text NOT NULL CHECK (length(etag) <= 128),
    PRIMARY KEY (blob_id, extent, place, size_bytes, part_number)
);

GRANT SELECT, INSERT, DELETE ON multipart, multipart_piece TO sijil_app;
GRANT USAGE ON SEQUENCE bucket_extent TO sijil_app;
