/*
 * audit/subject_rewrap_priv.h -- the statements behind audit/subject_rewrap.h.
 */
#pragma once

#include "audit/subject_rewrap.h"

/** Rows (id, subject, key_version, wrapped_key) under an older epoch, by id. */
RESULT rewrap_select_subjects(struct pg *pg, uint32_t epoch, int64_t after, struct pg_rows **rows_out, struct error *err);
struct rewrapped_subjects {
    size_t count;
    uint32_t epoch;
    struct bytes subjects[SUBJECT_REWRAP_BATCH], old[SUBJECT_REWRAP_BATCH], fresh[SUBJECT_REWRAP_BATCH];
};
RESULT rewrap_replace_subjects(struct pg *pg, const struct rewrapped_subjects *keys, int64_t *changed_out, struct error *err);
RESULT rewrap_renew_blind(struct pg *pg, const struct bytes *subjects, size_t count, uint32_t epoch, struct error *err);
/** The number of keys under an older epoch, and the time of the first entry of the log; 0: there is none. */
RESULT rewrap_count_subjects(struct pg *pg, uint32_t epoch, int64_t *old_out, int64_t *first_ms_out, struct error *err);
