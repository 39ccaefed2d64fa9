/* registry/region_scan_priv.h -- stores and their records, and what the server itself changes of a region's state. */
#pragma once

#include "registry/region.h"
#include "storage/driver.h"
#include "storage/region.h"

/** The member `store` of the region in the policy set; NULL is not stated. Views. */
struct region_record {
    bool is_signed; /* the set has the member */
    const char *driver, *mark, *file_system, *endpoint, *bucket, *bucket_location, *prefix;
    const char *keyd, *key_ring, *key_geo, *key_control; /* of the record, whether or not it has `store` */
};
struct policy_set;
/** What the set in force says of a region. Views of the set, which may be NULL. */
struct region_record region_record_of(const struct policy_set *set, const char *region);

/** The store as this gateway uses it. Views. */
struct region_place {
    const char *driver, *endpoint, *bucket, *bucket_location, *prefix;
};

/** Pure. `known_mark`: that the region was begun with, or "". Appends findings to the report. */
void region_compare(const struct region_record *record, const struct region_place *place, const char *known_mark,
                    const struct driver_survey *survey, struct region_report *report);
/** What is wrong with the region's own sijil-keyd, if it has one. `keys` may be NULL. */
struct region_keys;
void region_compare_keys(const struct region_keys *keys, struct region_report *report);
/** The grave findings as one text, cut to `size`. */
void region_report_text(const struct region_report *report, char *text, size_t size);

/** A change under a permit of permit_for_job(), which `where` and `action` name. ERROR_CONFLICT: it is so already. */
struct region_step {
    struct change change;
    struct resource where;       /* the system, with the region */
    enum action action;          /* region.quarantine, region.release, region.mark, region.open, region.keyd */
    const char *text;            /* why; or the mark; or the key. Must outlive the record */
    const struct region *opened; /* region.open: the new row */
    uint64_t epoch;              /* region.quarantine: of the policy set */
    bool is_done;                /* set by the change; false: another gateway was first */
};
/** Records region.open and adds the row of a region that only the policy set names. Success also if another gateway was first. */
RESULT region_record_opening(struct registry *registry, const struct region *region, struct error *err);
/** Records a step of the server itself. Success also if another gateway was first: then step->is_done is false. */
RESULT region_record_step(struct registry *registry, const char *region, struct region_step *step, const char *note,
                          struct error *err);
#define REGION_PATH_ROOM 1024
/** "aws/x" is aws-x below the folder. ERROR_LIMIT. */
RESULT region_path_below(const char *folder, const char *id, char path_out[REGION_PATH_ROOM], struct error *err);
/** The caller sets the other members. */
void region_step_prepare(enum action action, struct region_step *step_out);
