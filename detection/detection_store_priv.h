/* detection/detection_store_priv.h -- the table audit_detection: how far the rules have looked. */
#pragma once

#include "audit/sequencer.h"
#include "detection/detective.h"

/** Of event `at`, `done` alarms are recorded; all alarms of events before it are. */
struct detection_position {
    uint64_t at;
    int32_t done;
};
/** Whether this connection now has the lock; it keeps the lock until it ends. */
RESULT detection_lock(struct pg *pg, bool *is_mine_out, struct error *err);
/** The position; a registry that has none begins with event `first`. */
RESULT detection_open(struct pg *pg, uint64_t first, struct detection_position *position_out, struct error *err);
#define DETECTION_TOGETHER 32 /* events whose blobs are asked for in one statement */
/** A blob that was read. */
struct detection_blob {
    char organisation[64], project[64], digest[160];
    const char *region;
    uint64_t size_bytes; /* the answer; 0: there is no such blob any more */
};
/** Fills the sizes of 1 to DETECTION_TOGETHER blobs in. */
RESULT detection_sizes(struct pg *pg, struct detection_blob *blobs, size_t count, struct error *err) __attribute__((nonnull));
/** The persons behind the newest robot of this name, in `known`; none: nobody. */
RESULT detection_persons_of_robot(struct pg *pg, const char *name, struct event_known *known, struct error *err);
#define COPY_PLACES_MAX 256 /* repositories that have the same blob and are compared */
#define COPY_BLOBS_MAX  64  /* blobs of one manifest that states a label */
/** A repository that has a blob. */
struct copy_place {
    const char *name; /* a view of the rows */
    struct uuid repository, project;
    int64_t since_us; /* by the database's clock */
};
/** The repositories that have this blob, at most COPY_PLACES_MAX of them, the oldest links first. */
RESULT detection_places(struct pg *pg, const char *digest, struct pg_rows **rows_out, struct error *err) __attribute__((nonnull));
/** The blobs of this manifest of the repository `name`, at most COPY_BLOBS_MAX; none unless it states a label. */
RESULT detection_labelled_blobs(struct pg *pg, const char *name, const char *digest, struct pg_rows **rows_out, struct error *err)
    __attribute__((nonnull));
size_t detection_place_count(const struct pg_rows *rows);
struct copy_place detection_place_of(const struct pg_rows *rows, size_t row);
const char *detection_blob_at(const struct pg_rows *rows, size_t row);
/** May be lost with the machine, and is then advanced again: a recorded alarm never is, nor the position with it. */
RESULT detection_advance(struct pg *pg, uint64_t at, struct error *err);

/** A change: one more alarm of the event position.at is recorded, under a permit for alarm.raise. ERROR_CONFLICT: it was recorded before. */
struct alarm_change {
    struct change change; /* points into this struct: don't copy it */
    struct detection_position position;
    char text[ALARM_TEXT_SIZE];
};
void alarm_change_init(struct alarm_change *change, const struct detection_position *position, const struct alarm *alarm);
