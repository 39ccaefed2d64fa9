/*
 * registry/upload/upload_store.h -- the table `upload`, and the commit of a blob.
 *
 * Each statement of a writer names the writer_epoch that it claimed. If it changes no row, the writer has lost the
 * session.
 */
#pragma once

#include "registry/key_cache.h"
#include "registry/upload/abandoned_store.h"
#include "registry/upload/upload.h"
#include "storage/blob.h"

struct upload_row {
    struct uuid upload, blob;
    enum digest_algorithm algorithm;
    struct key_record key; /* its id is the blob's */
    uint64_t writer_epoch;
    struct blob_checkpoint checkpoint;
    uint64_t reserved; /* bytes of the project's quota, from the upload's beginning */
    bool is_counted;   /* the project has a quota of bytes */
};

#define UPLOAD_FIRST_EPOCH 1 /* a session's first writer is the gateway that began it */

/**
 * Inserts a session that is claimed with UPLOAD_FIRST_EPOCH. ERROR_LIMIT if the project has as many sessions as it
 * may have; ERROR_DENIED if its quota of bytes is used up.
 */
RESULT upload_row_insert(struct pg *pg, struct upload_begin *begin, struct error *err);

/** The same as one statement of a pipeline. In the cases above the statement raises an error of the database. */
RESULT upload_row_add(struct pg *pg, const struct upload_begin *begin, struct error *err);
void upload_row_take_begin(const struct pg_rows *answer, struct upload_begin *begin);

struct upload_key {
    struct uuid upload, repository;
    const char *region;
    const uint8_t *bound_to, *secret_hash; /* 32 bytes each */
};
/** ERROR_NOT_FOUND, without the reason. */
RESULT no_such_upload(struct error *err);
/**
 * *found_out: all of the key matches, and the session has not expired. The caller sets row->upload; the other members
 * are set if it is found.
 */
RESULT upload_row_find(struct pg *pg, const struct upload_key *key, struct upload_row *row, bool *found_out, struct error *err);
/** The same as one statement of a pipeline, and its answer. */
RESULT upload_row_add_find(struct pg *pg, const struct upload_key *key, struct error *err);
RESULT upload_row_take_find(const struct pg_rows *answer, struct upload_row *row, bool *found_out, struct error *err);
/** Raises writer_epoch and reads the checkpoint again. ERROR_NOT_FOUND. */
RESULT upload_row_claim(struct pg *pg, struct upload_row *row, struct error *err);
/** ERROR_CONFLICT. */
RESULT upload_row_save(struct pg *pg, const struct uuid *upload, const struct blob_checkpoint *checkpoint, struct error *err);

struct upload_reservation {
    struct uuid project;
    /** Bytes, counted from the upload's beginning. `needed` bytes are reserved, and up to `wished` bytes if the quota has
     *  room. */
    uint64_t needed, wished;
};
/** Inside a change: reserves bytes and updates upload->reserved. ERROR_DENIED if less than `needed` is left; ERROR_CONFLICT. */
RESULT upload_row_reserve(struct pg *pg, struct upload_row *upload, const struct upload_reservation *wanted, struct error *err);

/** Inside a change: releases all but `kept` of the reserved bytes. */
RESULT upload_row_give_back(struct pg *pg, const struct upload_row *upload, uint64_t kept, struct error *err);

/** The blob that an upload becomes: the upload's own one, or a copy with the same content. */
struct upload_commit_row {
    const struct resource *where;
    const struct upload_row *upload;
    const struct key_record *key;
    const struct blob_content *content;
    int64_t lease_s;
    bool is_held; /* registry/stored_blob_store.h */
};
/**
 * Blobs that a commit left without a row; they are now in abandoned_object. At most the upload's own, and one of two
 * equal blobs.
 */
struct dropped_blobs {
    size_t count;
    struct uuid blobs[2];
};
/** Ends the session, inserts the blob's row or finds an older one, and links it. ERROR_CONFLICT. */
RESULT upload_row_commit(struct pg *pg, const struct upload_commit_row *commit, struct dropped_blobs *dropped_out,
                         struct error *err);
/**
 * The same for the upload's own blob, as one statement of a pipeline. It raises an error if another writer has the
 * session, or the older blob is damaged.
 */
RESULT upload_row_add_commit(struct pg *pg, const struct upload_commit_row *commit, struct error *err);
void upload_row_take_commit(const struct pg_rows *answer, const struct upload_row *upload, struct dropped_blobs *dropped_out);
/** Ends the session for its writer and abandons its object. ERROR_CONFLICT. */
RESULT upload_row_drop(struct pg *pg, const struct upload_row *upload, struct error *err);
/** Notes progress without a save, so that the session is not idle. ERROR_CONFLICT. */
RESULT upload_row_touch(struct pg *pg, const struct upload_row *upload, struct error *err);
/** *is_gone_out: the session ended without a blob (cancelled, dropped or expired), so no row needs its bytes. */
RESULT upload_row_is_gone(struct pg *pg, const struct upload_row *upload, bool *is_gone_out, struct error *err);
/** Ends the session for its owner and abandons its object. ERROR_NOT_FOUND. */
RESULT upload_row_cancel(struct pg *pg, const struct upload_key *key, struct uuid *blob_out, struct error *err);

/*
 * Each statement that ends a session releases its reserved bytes: "WITH gone AS (DELETE FROM upload WHERE ..."
 * UPLOAD_ENDED ")," UPLOAD_RELEASE.
 */
#define UPLOAD_ENDED " RETURNING blob_id, region_id, project_id, reserved_bytes"
#define UPLOAD_RELEASE                                                                                  \
    " released AS (UPDATE project_quota q SET bytes_used = q.bytes_used - g.reserved_bytes FROM gone g" \
    " WHERE q.project_id = g.project_id AND g.reserved_bytes > 0)"

/*
 * Sessions to end: expired ones, and idle ones that make room. A session is idle if no request made progress for $4
 * seconds. If a request makes progress when less than 23 hours are left, the session expires 24 hours after this progress. So an
 * idle session has less time left, and the index over expires_at finds it. Idle sessions make room if their client, project or
 * organisation has more than half of the allowed sessions: $1, $2 and $3 are per_client, per_project and per_organisation; a
 * quota replaces the first two.
 */
#define UPLOAD_IS_IDLE(seconds)                                                                                \
    "(expires_at < now() + interval '24 hours' - " seconds " * interval '1 s' AND moved_at < now() - " seconds \
    " * interval '1 s')"
#define UPLOADS_THAT_END                                                                                                                    \
    "WITH idle AS (SELECT upload_id, project_id, organisation_id FROM upload WHERE " UPLOAD_IS_IDLE(                                        \
        "$4") "),"                                                                                                                          \
              " counted AS (SELECT project_id, bound_to, count(*) AS own, sum(count(*)) OVER (PARTITION BY project_id) AS whole"            \
              " FROM upload WHERE project_id IN (SELECT project_id FROM idle) GROUP BY project_id, bound_to),"                              \
              " summed AS (SELECT organisation_id, count(*) AS together FROM upload"                                                        \
              " WHERE organisation_id IN (SELECT organisation_id FROM idle) GROUP BY organisation_id),"                                     \
              " ending AS (SELECT u.* FROM upload u WHERE u.expires_at <= now() UNION SELECT u.* FROM upload u JOIN idle USING (upload_id)" \
              " JOIN counted c ON c.project_id = u.project_id AND c.bound_to = u.bound_to"                                                  \
              " JOIN summed s ON s.organisation_id = u.organisation_id"                                                                     \
              " LEFT JOIN project_quota q ON q.project_id = u.project_id WHERE 2 * c.own > coalesce(q.client_sessions_max, $1)"             \
              " OR 2 * c.whole > coalesce(q.sessions_max, $2) OR 2 * s.together > $3) "

struct expired_upload {
    struct uuid upload, blob, organisation, project, repository;
    char name[RESOURCE_NAME_MAX + 1], region[REGION_ID_MAX + 1];
    bool makes_room; /* it is idle and ends early to make room */
};
/** At most `capacity` sessions to end; the oldest first. */
RESULT upload_rows_expired(struct pg *pg, const struct session_limits *limits, struct expired_upload *expired_out,
                           size_t capacity, size_t *count_out, struct error *err);
/** Ends such a session. ERROR_NOT_FOUND if it has ended, or made progress since. */
RESULT upload_row_expire(struct pg *pg, const struct uuid *upload, const struct session_limits *limits, struct error *err);
/** The first four parameters of UPLOADS_THAT_END. */
void upload_add_limits(struct pg_arguments *arguments, const struct session_limits *limits);
