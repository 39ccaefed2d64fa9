/*
 * runner/serve/verdict.h -- whether a leased order may run here: all checks before the lease is taken, in their order.
 */
#pragma once

#include "runner/order/order_check.h"
#include "training/format/spec.h"

enum verdict_kind {
    VERDICT_RUN,
    VERDICT_REFUSE,  /* with a signed reason */
    VERDICT_TAKEN,   /* this runner has taken the lease before: the serving process knows what became of it. Never run again */
    VERDICT_UNNAMED, /* it is no lease for this runner's key, so there is nothing that a refusal could name */
};

struct verdict {
    enum verdict_kind kind;
    struct order_refusal refusal; /* VERDICT_REFUSE, VERDICT_TAKEN; VERDICT_UNNAMED, for the log */
    struct run_bundle *bundle;    /* VERDICT_RUN */
    struct run_envelope *lease;   /* VERDICT_REFUSE, VERDICT_TAKEN: what the refusal names; owned */
    struct taken_lease taken;     /* VERDICT_RUN, VERDICT_TAKEN */
    struct run_spec *spec;        /* VERDICT_RUN: of the order */
    struct device_grant grant;
    char run[UUID_TEXT_SIZE]; /* "" for VERDICT_UNNAMED */
};

/**
 * Checks the bundle `text`. `root` has signed policy sets. Fails for local reasons only: ERROR_NO_MEMORY.
 */
RESULT verdict_make(struct bytes text, const struct order_terms *terms, const struct ecdsa_key *root, struct verdict *verdict_out,
                    struct error *err);
void verdict_done(struct verdict *verdict);
