/*
 * embedded/enrolment_priv.h -- the papers of an enrolment, which its steps hand on in memory (enrolment.c, enrolment_sign.c, officers.c).
 */
#pragma once

#include "documents/format/document.h"
#include "documents/format/registry_pins.h"
#include "documents/format/signing_key.h"
#include "documents/view.h"
#include "embedded/embedded_priv.h"

#define ENROLMENT_PAYLOAD_ROOM  ((size_t)8 * 1024) /* of a runner's or a key's document: documents/format/kinds.def */
#define ENROLMENT_ENVELOPE_ROOM DOCUMENT_ENVELOPE_MAX(ENROLMENT_PAYLOAD_ROOM)

struct paper {
    size_t length;
    uint8_t bytes[ENROLMENT_ENVELOPE_ROOM];
};
struct papers {
    bool has_runner, has_trainer; /* before, so there is nothing to do */
    bool is_enrolled;             /* a runner was put in force, also if its folder has lost all */
    struct runner_place place;
    char country[3]; /* of the region, as the policies have it; "": it is not in their catalogue */
    struct registry_pins pins;
    uint8_t point[ECDSA_PUBLIC_SIZE]; /* the runner's key */
    struct paper ca;
    struct paper runner[2], trainer[2]; /* envelopes: the own key's, the root's */
};
struct desk {
    struct embedded *embedded;
    int papers; /* a file in memory */
};
#define PAPERS(name) struct papers name = {.has_runner = false}

RESULT papers_read(const struct desk *desk, struct papers *papers, struct error *err);
RESULT papers_write(const struct desk *desk, const struct papers *papers, struct error *err);
struct bytes paper_bytes(const struct paper *paper);
RESULT paper_write(struct paper *paper, struct bytes text, struct error *err);

/* Steps of the supervisor's user, which has the root's key. Their context is a desk. */

/** Composes what has no document yet, and signs it with the root's key, and the trainer's document with a new key, too. */
struct result enrolment_approve(void *context, struct error *err);
/** The runner is in force: it is marked, so that this is the only enrolment until root removes the mark. */
struct result enrolment_mark(void *context, struct error *err);
/** The trainer's key is in force: it gets its name. */
struct result enrolment_keep_trainer(void *context, struct error *err);

/** Reads which robot a file with a login is of. ERROR_CORRUPT. */
RESULT enrolment_read_robot(const char *file, struct signing_key *key, struct error *err);
/** Appends the payload of the first document of the key, which is in force from now on for ENROLMENT_LIFE_MS. */
RESULT enrolment_compose_key(const struct signing_key *key, struct buffer *payload, struct error *err);
RESULT enrolment_sign(enum document_kind kind, struct bytes payload, const struct ecdsa_key *key, struct paper *paper,
                      struct error *err);
#define ENROLMENT_LIFE_MS (730 * INT64_C(86400000))

/* office.c, as the gateway's user, which alone reaches sijil-keyd and the database */

struct office {
    struct keyd_client *keyd;
    struct keyd_identity identity;
    struct sequencer *sequencer;
    struct pg *pg;
    struct document_view *view;
};
RESULT office_open(const struct settings *settings, struct office *office, struct error *err);
void office_close(struct office *office);
/** Records the document of these envelopes: one, or two if the second is there. */
RESULT office_record(struct office *office, enum action action, const struct paper papers[2], struct error *err);
