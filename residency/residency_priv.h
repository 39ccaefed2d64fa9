/*
 * residency/residency_priv.h -- what the parts of a report share.
 */
#pragma once

#include "policy/replay_restrictions.h"
#include "policy/set.h"
#include "residency/residency.h"

/* The tables of a report, in the order in which they are shown and compared. */
#define RESIDENCY_TABLES(X)           \
    X(TABLE_PLACES, "places")         \
    X(TABLE_CONTENT, "content")       \
    X(TABLE_LABELS, "labels")         \
    X(TABLE_READERS, "readers")       \
    X(TABLE_REFUSALS, "refusals")     \
    X(TABLE_SETS, "sets")             \
    X(TABLE_RULES, "rules")           \
    X(TABLE_EXCEPTIONS, "exceptions") \
    X(TABLE_CONTROLS, "controls")
enum residency_table {
#define X(constant, name) constant,
    RESIDENCY_TABLES(X)
#undef X
        TABLE_COUNT
};
const char *residency_table_name(enum residency_table table);

struct residency_set {
    struct policy_set *set; /* owned */
    uint64_t loaded;        /* number of the event */
    int64_t loaded_ms;
    json_t *signatures; /* key ids */
};

struct residency {
    struct residency_question question;
    char project[LEAF_NAME_MAX + 1];
    json_t *texts, *facts;       /* by digest in hex: the text, and the same as JSON */
    json_t *tables[TABLE_COUNT]; /* arrays of rows */
    json_t *found[TABLE_COUNT];  /* objects: key of a row -> row */
    char closing_set[72];        /* the set under which the export was recorded */
    int64_t last_ms;             /* time of the last event */
    size_t rows;                 /* of all tables */
    json_t *projects;            /* object: ids that the project had -> true */
    json_t *uses; /* object: SHA-256 of an exception -> how often it was used, and the number of the last use and its event */
    struct residency_set sets[RESIDENCY_SETS_MAX];
    struct replay_restrictions *restrictions; /* owned; NULL: none is at hand */
    struct residency_findings findings;
};

RESULT residency_new(const struct residency_question *question, struct residency **residency_out, struct error *err);
void residency_free(struct residency *residency);
DEFINE_OWNED(residency);

RESULT residency_no_memory(struct error *err);
/** The row of the key: a new empty object, or the one that is there. ERROR_LIMIT, ERROR_NO_MEMORY. Borrowed. */
RESULT residency_row(struct residency *residency, enum residency_table table, const char *key, json_t **row_out,
                     struct error *err);
/** Counts an event in a row: `count`, and number and time of the first and the last one. */
RESULT residency_count(json_t *row, const struct leaf *leaf, struct error *err);
/** Sets a member; steals `value`. ERROR_NO_MEMORY, also if it is NULL. */
RESULT residency_put(json_t *row, const char *member, json_t *value, struct error *err);
RESULT residency_put_text(json_t *row, const char *member, const char *value, struct error *err);
RESULT residency_put_time(json_t *row, const char *member, int64_t wall_ms, struct error *err);
/** Whether the event is in the period of reads, moves and removals. */
bool residency_is_in_period(const struct residency *residency, const struct leaf *leaf);

/** Takes facts, in any spelling; equal ones once. */
RESULT residency_take_facts(struct residency *residency, const json_t *facts, struct error *err);
/** Takes a set with its event and proof (evidence_sets.c). */
RESULT residency_take_set(struct residency *residency, const json_t *exported, const struct residency_trust *trust,
                          struct error *err);
/** Takes the restrictions that are proven, before all lines; then one of the evidence, which counts unless it is known which ones are proven (evidence_sets.c). */
RESULT residency_take_proven(struct residency *residency, const struct residency_trust *trust, struct error *err);
RESULT residency_take_restriction(struct residency *residency, const json_t *json, const struct residency_trust *trust,
                                  struct error *err);
/** Takes the next event of the project. */
RESULT residency_take_event(struct residency *residency, const struct leaf *leaf, struct error *err);
/** What the event put into a place, or removed. */
RESULT residency_take_content(struct residency *residency, const struct leaf *leaf, struct error *err);
/** Takes the closing entry of the export. */
void residency_take_closing(struct residency *residency, const struct leaf *leaf);
/** Appends the rows of the table of controls. */
RESULT residency_add_controls(struct residency *residency, struct error *err);
/** Composes the report. `note`: the signed checkpoint; `evidence`: "sha256:..." of the file. */
RESULT residency_report(struct residency *residency, struct bytes note, const char *evidence, json_t **report_out,
                        struct error *err);

/* --- pages --- */
/** Text, with '?' for what steers a terminal or changes the order of letters, to an empty buffer. */
RESULT page_clean(const char *text, struct buffer *clean, struct error *err);
/** Appends text for a page, with nothing in it that is markup or changes the order of letters. */
RESULT page_text(const char *text, struct buffer *page, struct error *err);
/** The same for several lines. */
RESULT page_lines(const char *text, struct buffer *page, struct error *err);
/** The same as a text of its own between others (<bdi>): its direction, and where its lines may break. */
RESULT page_isolated(const char *text, struct buffer *page, struct error *err);
/** Appends a value as a person reads it: a text, a number, a list of texts with commas, pairs "name: value". */
RESULT page_value(const json_t *value, struct buffer *text, struct error *err);
