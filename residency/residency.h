/*
 * residency/residency.h -- where the bytes, keys and readers of a project were, under which rules and exceptions: a report, from the log alone
 * (docs/formats/residency-report.md).
 *
 * A report follows from its evidence: an export of the project's events with proof that none is missing, the facts of their decisions, and the signed
 * policy sets. Whoever has the evidence composes the same report, byte for byte. Pure but for the file that is read: no clock, network or database.
 * It is evidence for a review. Nothing in it says that a law is fulfilled.
 */
#pragma once

#include <stdio.h>

#include "audit/format/export_check.h"
#include "base/json.h"
#include "crypto/ecdsa.h"
#include "policy/restriction_chain.h"

#define RESIDENCY_KIND       "ResidencyReport"
#define RESIDENCY_REPORT_MAX ((size_t)24 << 20) /* bytes of a report: RESIDENCY_ROWS_MAX rows of 2 KiB each */
#define RESIDENCY_ROWS_MAX   8000 /* of a part, in all tables together: json_read() takes 2^18 values, and a row has up to 25 */
#define RESIDENCY_PARTS_MAX  12   /* all rows are in memory: some 300 MiB */
#define RESIDENCY_PAGE_MAX   (4 * RESIDENCY_REPORT_MAX) /* each row with its markup */
#define RESIDENCY_SETS_MAX   64                         /* policy sets that were in force, in one report */
#define RESIDENCY_LINE_MAX   ((size_t)8 << 20) /* of the evidence: a policy set of 2 MiB with its proof, as text in text */

/** What is asked, beside what the export's own terms say: its key is the project, its end is the moment of the report. */
struct residency_question {
    enum export_unit unit; /* of `from` */
    uint64_t from;         /* reads, moves and removals from here on; 0: from the beginning */
    size_t part;           /* of the report that is asked about; 0: the whole. Composing looks at all in any case */
};

/** What the reader trusts, from its user alone. */
struct residency_trust {
    struct proof_trust log; /* vkey empty: no signature is checked */
    const struct ecdsa_key
        *root; /* of approvers: a set that it alone has to sign must have its signature; NULL: none is checked */
    const struct set_chain
        *sets; /* with `root`: sets that several persons sign, as they were counted; NULL: none of them is believed */
    const struct restriction_chain *
        restrictions; /* which restrictions of the organisation its officers have signed; NULL: those of the evidence are taken unproven */
};

/** What was found out about evidence, beside the report. */
struct residency_findings {
    struct export_report export;
    uint64_t agree, differ, impossible; /* decisions that were made again */
    uint64_t
        lacking;    /* of the impossible ones: events whose facts or policy set the evidence does not have, so rows are missing */
    uint64_t first; /* the first event that differs */
    char what[256];
    size_t sets;
    size_t restrictions; /* of the evidence */
};

/* --- lines of the evidence, behind those of the export --- */
/** {"facts":...} and {"set":...}, with a line feed. `facts` is canonical JSON, `set` the file of policy/set_export.h. */
RESULT residency_facts_line(struct bytes facts, struct buffer *text, struct error *err);
RESULT residency_set_line(struct bytes set, struct buffer *text, struct error *err);
/** {"restriction":...}: a document of an organisation, canonical JSON. */
RESULT residency_restriction_line(struct bytes document, struct buffer *text, struct error *err);

/**
 * Reads the evidence from its beginning, twice, and composes the report. ERROR_DENIED: the evidence is not what it should be; the message has the line.
 * ERROR_LIMIT: there would be more rows than RESIDENCY_PARTS_MAX parts have. ERROR_INVALID, ERROR_UNAVAILABLE (the file), ERROR_NO_MEMORY.
 */
RESULT residency_compose(FILE *evidence, const struct residency_trust *trust, const struct residency_question *question,
                         json_t **report_out, struct residency_findings *findings_out, struct error *err);
/** How many parts a report is written in: one for each RESIDENCY_ROWS_MAX rows of its tables, at least one. The table of controls is in each part. */
size_t residency_parts(const json_t *report);
/** A part, from 1, which says so; of one part alone, or 0, it is the report itself. ERROR_DENIED: there is no such part. ERROR_NO_MEMORY. */
RESULT residency_part(const json_t *report, size_t part, json_t **part_out, struct error *err);
/** The question of a report that was read. ERROR_DENIED: it is no report. */
RESULT residency_question_of(const json_t *report, struct residency_question *question_out, struct error *err);
/** The day of this program's mapping to controls. */
const char *residency_mapping(void);
/** Compares a report with the one that its evidence leads to. ERROR_DENIED names the first member or row that differs. The controls of another mapping are not compared:
 *  whoever asks is told so. */
RESULT residency_compare(const json_t *report, const json_t *right, struct error *err);

/** Appends the bytes of a report: canonical JSON and a line feed. ERROR_LIMIT. */
RESULT residency_write(const json_t *report, struct buffer *text, struct error *err);

enum residency_language { RESIDENCY_ENGLISH, RESIDENCY_ARABIC, RESIDENCY_LANGUAGES };
/** Appends one HTML page, to be shown or printed, without anything from elsewhere. It has the SHA-256 of the bytes of the report. */
RESULT residency_page(const json_t *report, enum residency_language language, struct buffer *text, struct error *err);
/** Appends all tables as CSV (RFC 4180): table, then name and value of each member. */
RESULT residency_csv(const json_t *report, struct buffer *text, struct error *err);
