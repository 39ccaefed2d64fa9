/*
 * embedded/enrolment_priv.h -- the papers of an enrolment, which its steps hand on in memory (enrolment.c, enrolment_sign.c).
 */
#pragma once

#include "documents/format/document.h"
#include "documents/format/registry_pins.h"
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
